"""``MatMul -> Add`` before an activation that has no kernel with a bias -> ``Gemm``: product and bias in one.

For the first products of feed-forwards only, plain or gated, packed or apart: there the bias would be one
more node between the two products. The kernel takes matrices, so inputs of other ranks are reshaped to rows
and back; reshapes move no data. Covers: a ``Gemm`` without an addend in place of the ``MatMul``. Not covered:
activations that another rule fuses with the bias.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.core.activations import LINKS, OPERATORS
from ffn_export.fusion import constants, linear
from ffn_export.fusion.activations import begins_activation
from ffn_export.fusion.region import Region, through
from ffn_export.fusion.rule import Found, Rule, replacing, standard
from ffn_export.fusion.sites import data_of, leads_to_a_product
from ffn_export.fusion.views import input_at, inputs_of, is_one_of, is_standard, orders, producer


class BiasedGemm(Rule):
    """Product and bias of a first product."""

    site = "feed_forward"
    writes = "Gemm"
    ends = OPERATORS | LINKS | standard("Mul", "Pow")

    def match(self, node: ir.Node) -> Found:
        """Recognise the sum before an activation, or the one beside it in a gated feed-forward."""
        is_activated = _is_activation(node)
        if not is_activated and not is_standard(node, "Mul"):
            return None
        for value in inputs_of(node)[:2]:
            layer = linear.read(through(_unscaled(value)), node.graph)
            # No CPU kernel of ONNX Runtime takes bfloat16, so the plain nodes stay.
            if layer is None or layer.bias is None or value.dtype == ir.DataType.BFLOAT16:
                continue
            if linear.why_no_rows(layer) is not None:
                continue
            assert layer.add is not None
            if not is_activated and not _is_gating(node):
                return None
            if leads_to_a_product(node):
                return replacing(layer.nodes, layer.add.outputs[0], linear.write_gemm, layer)
        return None


def _is_gating(node: ir.Node) -> bool:
    """Whether one factor is activated, or both are linear layers: a gated feed-forward without an activation."""
    factors = [through(value) for value in inputs_of(node)]
    return any(map(_is_activated, factors)) or all(linear.read(value, node.graph) is not None for value in factors)


def _is_activation(node: ir.Node) -> bool:
    # A product that holds its activation marks a gated feed-forward like an activation does.
    return begins_activation(node) or _squares(node) or is_one_of(node, "FusedGemm")


def _is_activated(value: ir.Value) -> bool:
    """Whether a value is the result of an activation, or is computed of one, as the square of a Relu is."""
    node, region = value.producer(), Region(data_of, constants.is_fixed)
    if node is None or not region.grow(value, node.graph):
        return node is not None and _is_activation(node)
    return any(map(_is_activation, region.seen))


def _squares(node: ir.Node) -> bool:
    """Whether a node is a power of two, or a product of a value with itself."""
    if node.op_type == "Pow":
        return constants.number(input_at(node, 1)) == 2
    return node.op_type == "Mul" and input_at(node, 0) is input_at(node, 1)


def _unscaled(value: ir.Value) -> ir.Value:
    """Return the factor of a product with a number; the value itself if it is none."""
    for factor, other in orders(producer(value, "Mul")):
        if constants.number(other) is not None and constants.number(factor) is None:
            return factor
    return value
