"""Copy the nodes of a feed-forward for rows, ``[tokens, d_in]``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from ffn_export.fusion.builder import Builder
from ffn_export.fusion.forms.by_rows.row_function import is_moved, is_of_shapes
from ffn_export.fusion.functions.site_reading import Reading
from ffn_export.fusion.shapes import last_size
from ffn_export.fusion.views import is_standard


def write(op: Builder, x: ir.Value, *, reading: Reading) -> ir.Value:
    """Write a feed-forward for rows, and return its rows. The builder's constants belong to the main graph."""
    return copied(op, reading.nodes, {reading.inputs["x"]: x}, reading.end)


def copied(op: Builder, nodes: Iterable[ir.Node], values: dict[ir.Value, ir.Value], end: ir.Value) -> ir.Value:
    """Write nodes for rows, and return what is written for ``end``.

    Args:
        op: Builder of the nodes.
        nodes: Nodes in topological order; those of shapes, and those whose result is among ``values``, are left out.
        values: Value of the graph -> what is written for it.
        end: Result of the last node.
    """
    for node in nodes:
        if is_of_shapes(node) or node.outputs[0] in values:
            continue
        inputs = [value if value is None else values.get(value, value) for value in node.inputs]
        if is_moved(node):
            assert inputs[0] is not None
            values[node.outputs[0]] = inputs[0]
        else:
            values.update(zip(node.outputs, again(op, node, inputs), strict=True))
    y = values[end]
    y.type, y.shape = end.type, ir.Shape([None, last_size(end)])
    return y


def again(op: Builder, node: ir.Node, inputs: Sequence[ir.Value | None]) -> Sequence[ir.Value]:
    """Write a copy of a node for rows; a ``Split`` or ``Slice`` is along the last axis."""
    changed = {"axis": -1} if is_standard(node, "Split") else {}
    if is_standard(node, "Slice"):
        inputs = [*inputs[:3], op.Constant(value_ints=[-1]), *inputs[4:]]
    made = op.like(node, *inputs, outputs=len(node.outputs), **changed)
    hand_on(node, made[0])
    return made


def hand_on(node: ir.Node, value: ir.Value) -> None:
    """Copy a node's metadata to the node of ``value``: its PyTorch module, and the rules that wrote it."""
    written = value.producer()
    assert written is not None
    written.metadata_props.update(node.metadata_props)
