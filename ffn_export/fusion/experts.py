"""Find feed-forwards of experts, whose weights are a stack of matrices. They are reported and not fused.

A token's matrices are gathered from the stack (``Gather``, ``GatherND``), or every token is multiplied by all of them
(``MatMul`` or ``Einsum`` with the stack). No operator of a target computes either; only the activation between can be
fused.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.activations import activation_name
from ffn_export.fusion.region import LAYOUT, Region, through
from ffn_export.fusion.sites import Unfused
from ffn_export.fusion.views import input_at, is_standard

_TAKES = ("Gather", "GatherND")


def find(model: ir.Model) -> Iterator[Unfused]:
    """Yield the experts of the model's graphs, in graph order of their last nodes."""
    for graph in (model.graph, *model.graph.subgraphs(), *model.functions.values()):
        for node in graph:
            found = _experts(node)
            if found is not None:
                yield found


def _experts(product: ir.Node) -> Unfused | None:
    """Recognise experts by their second product."""
    count, region = _count(product), Region(_data_of, _is_given)
    if count is None or not region.grow(_data_of(product), product.graph) or region.source is None:
        return None
    if any(_count(first) != count for first in region.firsts) or not (region.pieces or region.is_gated):
        return None
    nodes = (*region.firsts, *reversed(region.computing), product)
    reason = f"the weights of its {count} experts are a stack: no operator multiplies rows by one matrix each"
    return Unfused(nodes, activation_name([], region.pieces), region.is_gated, reason)


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


def _data_of(product: ir.Node) -> ir.Value | None:
    if _count(product) is None:
        return None
    return next((value for value in product.inputs if value is not None and _stack(value) is None), None)


def _is_given(value: ir.Value) -> bool:
    """Whether a value is a constant, or gathered from one, such as the biases of the chosen experts."""
    return _stack(value) is not None
