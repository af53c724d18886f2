"""``MatMul -> Add -> activation`` -> ``com.microsoft::FusedGemm``: product, bias and activation in one kernel.

The kernel takes matrices, so inputs of other ranks are reshaped to rows and back; reshapes move no data.
Covers: with and without bias; a ``Gemm`` as product, with its own addend or one after it; Relu, LeakyRelu, Tanh
and Elu, which are the activations of the reference modules that the kernel knows; reshapes before the activation.
Not covered: a weight that is no constant matrix.
"""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from ffn_export.core.activations import AFTER_PRODUCTS
from ffn_export.fusion import constants, layout, linear
from ffn_export.fusion.activations import FUSED_GEMM
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.rule import Found, Match, Refused, Rule, standard
from ffn_export.fusion.views import float_of, input_at, orders, producer


class FusedGemm(Rule):
    """Product, bias and activation."""

    site = "feed_forward"
    writes = "com.microsoft::FusedGemm"
    ends = AFTER_PRODUCTS & standard(*FUSED_GEMM)

    def match(self, node: ir.Node) -> Found:
        """Recognise the linear layer before the activation."""
        x = input_at(node, 0)
        # The operator's schema has no bfloat16, so the plain nodes stay.
        if x is None or x.dtype == ir.DataType.BFLOAT16:
            return None
        seen = layout.before(x, node.graph)
        if any(math.isnan(number) for number in _attributes(node).values() if isinstance(number, float)):
            return None
        gemm = producer(seen.value, "Gemm", within=node.graph)
        if gemm is not None and constants.is_fixed(input_at(gemm, 1)):
            nodes = (node, *seen.nodes, gemm)
            return Match(nodes, (node.outputs[0],), lambda op: [_write_gemm(op, gemm, node, seen.nodes)])
        layer = linear.read(seen.value, node.graph)
        if layer is None:
            return _refused_bias(seen.value, node)
        reason = linear.why_no_rows(layer)
        if reason is not None:
            return Refused(reason, (node, *layer.nodes))

        def write(op: Builder) -> list[ir.Value]:
            y = linear.write_gemm(op, layer, "com.microsoft::FusedGemm", **_attributes(node))
            return [layout.again(op, y, seen.nodes)]

        return Match((node, *seen.nodes, *layer.nodes), (node.outputs[0],), write)


def _write_gemm(op: Builder, gemm: ir.Node, act: ir.Node, moved: tuple[ir.Node, ...]) -> ir.Value:
    """Write an existing ``Gemm`` and its activation as one node."""
    attributes = {name: attribute.value for name, attribute in gemm.attributes.items()}
    y = op.write("com.microsoft::FusedGemm", *gemm.inputs, **attributes, **_attributes(act))
    return layout.again(op, y, moved)


def _attributes(act: ir.Node) -> dict[str, Any]:
    alpha = FUSED_GEMM[act.op_type]
    slope = {} if alpha is None else {"activation_alpha": float_of(act, "alpha", alpha)}
    return {"activation": act.op_type, **slope}


def _refused_bias(value: ir.Value, act: ir.Node) -> Refused | None:
    """Return a refusal if a linear layer has a bias that the kernel does not take."""
    add = producer(value, "Add", within=act.graph)
    if add is None:
        return None
    for bias, product in orders(add):
        is_linear = producer(product, *linear.PRODUCTS) is not None and linear.read(product, act.graph) is not None
        if is_linear and constants.is_constant(bias):
            return Refused(f"bias {bias.name!r} is not one number for each feature", (act, add))
    return None
