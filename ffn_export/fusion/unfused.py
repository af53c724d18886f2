"""Find feed-forwards that are reported and not fused, because no target has an operator for them.

1. Experts, whose weights are a stack of matrices. A token's matrices are gathered from the stack (``Gather``,
   ``GatherND``), or every token is multiplied by all of them (``MatMul`` or ``Einsum`` with the stack). Only the
   activation between can be fused.
2. Feed-forwards that mix tokens or features of the hidden layer. Some models compute across them: a depthwise
   convolution over the tokens (SegFormer), a response that is normalised over them (ConvNeXt V2), a norm of the hidden
   layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.activations import activation_name
from ffn_export.fusion.engine import sorted_nodes
from ffn_export.fusion.region import LAYOUT, Region, through
from ffn_export.fusion.sites import Unfused, data_of, listed, weight_sizes
from ffn_export.fusion.views import input_at, is_standard

_TAKES = ("Gather", "GatherND")
_MIXES = (
    *("AveragePool", "BatchNormalization", "Conv", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"),
    *("GroupNormalization", "InstanceNormalization", "LayerNormalization", "LpNormalization", "MaxPool", "Pad"),
    *("RMSNormalization", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceSum", "ReduceSumSquare"),
)
# Operators that are no activation.
_PLAIN = ("Add", "Cast", "Div", "Mul", "Sub", *_MIXES)


@dataclass
class _MixedRegion(Region):
    mixing: dict[ir.Node, None] = field(default_factory=dict)

    def computes(self, node: ir.Node) -> bool:
        if is_standard(node, *_MIXES):
            self.mixing[node] = None
            return True
        return super().computes(node)


def find(model: ir.Model) -> Iterator[Unfused]:
    """Yield the experts and then the mixed feed-forwards, each in graph order of their last nodes."""
    for recognise in (_experts, _mixed):
        for graph in (*model.graphs(), *model.functions.values()):
            yield from (found for node in graph if (found := recognise(node)) is not None)


def _mixed(product: ir.Node) -> Unfused | None:
    second, region = weight_sizes(product), _MixedRegion(data_of, constants.is_fixed)
    if second is None or not region.grow(product.inputs[0], product.graph) or region.source is None:
        return None
    first = weight_sizes(next(iter(region.firsts)))
    activation = [node for node in region.activation if not is_standard(node, *_PLAIN)]
    is_wider = first is not None and first[0] == second[1] < second[0]
    if not region.mixing or not is_wider or not (activation or region.is_gated):
        return None
    mixing = sorted_nodes(region.mixing)
    verb = "computes" if len(mixing) == 1 else "compute"
    reason = f"{listed(mixing)} {verb} across tokens or features between its two products"
    nodes = (*region.firsts, *reversed(region.computing), product)
    return Unfused(nodes, activation_name([], activation), region.is_gated, reason)


def _experts(product: ir.Node) -> Unfused | None:
    count, region = _count(product), Region(_data_of_experts, _is_given)
    if count is None or not region.grow(_data_of_experts(product), product.graph) or region.source is None:
        return None
    if any(_count(first) != count for first in region.firsts) or not (region.activation or region.is_gated):
        return None
    nodes = (*region.firsts, *reversed(region.computing), product)
    reason = f"the weights of its {count} experts are a stack: no operator multiplies rows by one matrix each"
    return Unfused(nodes, activation_name([], region.activation), region.is_gated, reason)


def _count(product: ir.Node) -> int | None:
    """Return the number of experts in a product's stack; None for any other node."""
    if not is_standard(product, "MatMul", "Einsum") or len(product.inputs) != 2:
        return None
    shapes = [None if (stack := _stack(value)) is None else stack.shape for value in product.inputs]
    known = [shape for shape in shapes if shape is not None and len(shape) == 3]
    if len(known) != 1 or not isinstance(known[0][0], int):
        return None
    return known[0][0]


def _stack(value: ir.Value | None) -> ir.Value | None:
    """Return the constant stack that a value is, or that it was gathered from for each token."""
    if value is None:
        return None
    node = through(value, LAYOUT).producer()
    taken = input_at(node, 0) if node is not None and is_standard(node, *_TAKES) else through(value, LAYOUT)
    return taken if taken is not None and constants.is_fixed(taken) else None


def _data_of_experts(product: ir.Node) -> ir.Value | None:
    if _count(product) is None:
        return None
    return next((value for value in product.inputs if value is not None and _stack(value) is None), None)


def _is_given(value: ir.Value) -> bool:
    """Whether a value is a constant, or gathered from one, such as the biases of the chosen experts."""
    return _stack(value) is not None
