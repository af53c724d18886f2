"""Layout nodes: nodes that move data and keep the last axis together.

An element-wise operator, an added row and a norm over the last axis compute the same before a layout node as after it.
So a rule may read through it, and write it again behind the fused operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.fusion.builder import Builder
from ffn_export.fusion.shapes import last_size
from ffn_export.fusion.views import input_at, is_standard, producer

_MOVES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")
_LONGEST = 4


@dataclass(frozen=True)
class Seen:
    """The value before some layout nodes.

    Attributes:
        value: Value before them.
        nodes: Layout nodes, from the end backwards.
        is_private: Whether nothing else reads a value in between, so that they can be replaced.
    """

    value: ir.Value
    nodes: tuple[ir.Node, ...]
    is_private: bool


def before(value: ir.Value, graph: object) -> Seen:
    """Read backwards through layout nodes."""
    nodes: list[ir.Node] = []
    private = True
    while len(nodes) < _LONGEST:
        node = producer(value, within=graph)
        source = input_at(node, 0)
        if node is None or source is None or not keeps_last_axis(node, source):
            break
        private = private and len(value.consumers()) == 1 and not value.is_graph_output()
        nodes.append(node)
        value = source
    return Seen(value, tuple(nodes), private)


def again(op: Builder, value: ir.Value, nodes: Sequence[ir.Node]) -> ir.Value:
    """Write layout nodes again, first to last, behind another value."""
    for node in reversed(nodes):
        value = op.like(node, value, *node.inputs[1:])[0]
    return value


def keeps_last_axis(node: ir.Node, source: ir.Value) -> bool:
    """Whether a node only moves data, and keeps the last axis as it is."""
    if is_standard(node, "Identity"):
        return True
    if is_standard(node, "Cast"):
        return source.dtype is not None and source.dtype == node.outputs[0].dtype
    size = last_size(source)
    return is_standard(node, *_MOVES) and size is not None and size == last_size(node.outputs[0])
