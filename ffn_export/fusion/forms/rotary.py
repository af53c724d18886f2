"""Rotary positions as one node: ``RotaryEmbedding`` of opset 23.

Graphs turn heads in six nodes or more, each with a pass over them. The operator takes one pass, and it reads and writes
heads where they lie in rows, so that attention behind it can be one node, too. Cosines and sines, which are the same in
all layers, are brought into the operator's form once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.strict import expose
from ffn_export.fusion import opset, safety
from ffn_export.fusion.builder import Builder, Names
from ffn_export.fusion.engine import Log
from ffn_export.fusion.forms import ROTARY as NAME
from ffn_export.fusion.forms import rotations
from ffn_export.fusion.forms.form import Form
from ffn_export.fusion.forms.put import put
from ffn_export.fusion.forms.rotations import Rotation
from ffn_export.fusion.functions.heads import FIRST, LAST, Heads, read_back
from ffn_export.fusion.shapes import are_same_operand_axes
from ffn_export.fusion.unused import remove_unused
from ffn_export.fusion.views import is_standard, rank

_OPERATOR = "RotaryEmbedding"
_FLOAT = ir.DataType.FLOAT
_LOWEST_OPSET = 15  # Shape with a start and an end

_Angles = dict[tuple[object, ...], ir.Value]


@dataclass(frozen=True)
class _Found:
    """Rotary positions that can be one node.

    Attributes:
        rotation: The positions.
        heads: What is turned.
        length_axis: Axis of the length; the other of 1 and 2 is that of the heads.
        of_batch: Whether each of a batch has angles of its own.
    """

    rotation: Rotation
    heads: Heads
    length_axis: int
    of_batch: bool


def apply(model: ir.Model, log: Log, excluded: Collection[str]) -> dict[str, str]:
    """Write rotary positions as one node, in place."""
    if model.opset_imports.get("", 0) < _LOWEST_OPSET:
        return {}
    names, angles = Names(model), _Angles()
    for graph in tuple(model.graphs()):
        before = log.applied[NAME]
        for found in _find(model, graph, opset.ceiling(model)):
            rotation = found.rotation
            if rotation.end.name in excluded:
                continue
            op = Builder()
            put(op, _write(found, graph, op, angles), rotation.nodes[-1], rotation.nodes, rotation.end, NAME, names)
            log.applied.update([NAME])
            log.values.append(str(rotation.end.name))
        if log.applied[NAME] > before:
            graph.sort()  # angles that were made for one layer may be read by one that stands before it
    remove_unused(model)  # parts of heads, which attention would take for readers
    return {}


def _find(model: ir.Model, graph: ir.Graph, highest: int) -> Iterator[_Found]:
    for node in list(graph):
        found = _readable(node) if is_standard(node, "Add", "Concat") else None
        if found is None or any(each.graph is not graph for each in found.rotation.nodes):
            continue
        rotation = found.rotation
        if safety.refusal(model, rotation.nodes, [rotation.end], _OPERATOR, highest) is None:
            yield found


def _readable(node: ir.Node) -> _Found | None:
    try:
        rotation = rotations.read(node)
        return None if rotation is None else _placed(rotation)
    except Exception as error:  # noqa: BLE001 - a malformed node costs its own positions, not the others
        expose(error)
        return None


def _placed(rotation: Rotation) -> _Found | None:
    """Find the axes of batch, length and heads by those of the angles."""
    x, angles = rotation.x, (rotation.cos, rotation.sin)
    shapes: list[list[int | ir.SymbolicDim]] = [
        [*[1] * (4 - len(each.shape)), *each.shape] for each in angles if each.shape is not None
    ]
    if x.shape is None or len(x.shape) != 4 or len(shapes) < 2 or any(each.dtype != _FLOAT for each in (x, *angles)):
        return None
    for length_axis, heads_axis in ((2, 1), (1, 2)):
        batch, length, count, size = (x.shape[axis] for axis in (0, length_axis, heads_axis, 3))
        fits = all(
            len(shape) == 4 and shape[heads_axis] == 1 and are_same_operand_axes([shape[length_axis]], [length])
            for shape in shapes
        )
        batches = [shape[0] for shape in shapes]
        of_batch = all(are_same_operand_axes([each], [batch]) for each in batches)
        if not fits or not (of_batch or batches == [1, 1]) or not isinstance(count, int) or not isinstance(size, int):
            continue
        heads = Heads(x, FIRST if length_axis == 2 else LAST, batch, length, count, size)
        return _Found(rotation, read_back(heads), length_axis, of_batch)
    return None


def _write(found: _Found, graph: ir.Graph, op: Builder, made: _Angles) -> ir.Value:
    rotation, heads = found.rotation, found.heads
    cos, sin = (_angles(each, found, graph, op, made) for each in (rotation.cos, rotation.sin))
    attributes = {"num_heads": heads.count, "interleaved": int(rotation.are_neighbours)}
    if rotation.channels < heads.size:
        attributes["rotary_embedding_dim"] = rotation.channels
    y = op.write(_OPERATOR, heads.rows(op), cos, sin, **attributes)
    y = op.Reshape(y, op.integers(0, 0, heads.count, heads.size))
    if found.length_axis == 2:
        y = op.Transpose(y, perm=[0, 2, 1, 3])
    if heads.scale != 1:  # behind the node, where attention reads it
        y = op.Mul(y, op.constant(np.asarray(heads.scale, np.float32)))
    y.type, y.shape = rotation.end.type, rotation.end.shape
    return y


def _angles(value: ir.Value, found: _Found, graph: ir.Graph, op: Builder, made: _Angles) -> ir.Value:
    """Return cosines or sines as ``[batch, length, pairs]``, prepared once for all layers that read them."""
    rotation, heads = found.rotation, found.heads
    batch = (
        None if found.of_batch else heads.batch if isinstance(heads.batch, int) else heads.batch.value or heads.value
    )
    key = (graph, value, rotation.channels, rotation.are_neighbours, found.length_axis, batch)
    if key in made:
        return made[key]
    pairs: ir.Value = value
    if not rotation.has_pairs:
        step = 2 if rotation.are_neighbours else 1
        stop = rotation.channels // 2 * step
        start, end, axis, by = (op.integers(number) for number in (0, stop, -1, step))
        pairs = op.Slice(pairs, start, end, axis, by)
    lacking = np.arange(4 - (rank(value) or 0))
    if lacking.size:
        pairs = op.Unsqueeze(pairs, op.constant(lacking))
    pairs = op.Squeeze(pairs, op.integers(3 - found.length_axis))
    if not found.of_batch:
        ones = op.integers(1, 1)
        pairs = op.Expand(pairs, op.Concat(op.Shape(heads.value, end=1), ones, axis=0))
    made[key] = pairs
    return pairs


ROTARY = Form(NAME, None, lambda costs: True, apply=apply)
