"""Read rotary positions: each head's channels in pairs, turned by the angles of their token.

Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", equation 34:

    first  = first * cos - second * sin
    second = second * cos + first * sin

The channels of a pair are half a head apart, or neighbours. Graphs compute ``x * cos + turned(x) * sin``, where
``turned`` is ``Concat(-second, first)`` and each angle stands twice in a row; or the two lines above, whose results a
Concat joins. Channels behind the turned ones may pass unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.layout import keeps_last_axis
from ffn_export.fusion.shapes import are_alike, is_along_last, last_size
from ffn_export.fusion.views import input_at, inputs_of, is_standard, orders, producer, rank

# Operators that give equal numbers for equal numbers.
_UNARY = ("Cast", "Cos", "Exp", "Identity", "Neg", "Reciprocal", "Sin", "Sqrt")
_BINARY = ("Add", "Div", "Mul", "Pow", "Sub")
_LONGEST_PATH = 16
_LARGEST_TABLE = 1 << 24


@dataclass(frozen=True)
class Rotation:
    """Rotary positions of one value.

    Attributes:
        x: Value whose last axis is the channels of a head.
        cos: Cosines, which broadcast to the pairs; or to the channels, each twice.
        sin: Sines, likewise.
        channels: Number of channels that are turned, the first of a head.
        are_neighbours: Whether the two of a pair are neighbours.
        end: Result, of the shape of ``x``.
        nodes: Nodes that compute it from parts of ``x``, the last one last.
    """

    x: ir.Value
    cos: ir.Value
    sin: ir.Value
    channels: int
    are_neighbours: bool
    end: ir.Value
    nodes: tuple[ir.Node, ...]

    @property
    def has_pairs(self) -> bool:
        """Whether each angle stands once, for a pair, and not for each channel."""
        return last_size(self.cos) == self.channels // 2


@dataclass(frozen=True)
class _Part:
    """Every ``step``-th channel from ``start`` on, before ``stop``."""

    source: ir.Value
    start: int
    stop: int
    step: int


def read(node: ir.Node) -> Rotation | None:
    """Read the rotary positions that a node is the end of; with the channels that pass, if there are any."""
    found = _of_sum(node) if is_standard(node, "Add") else _of_halves(node) if is_standard(node, "Concat") else None
    return None if found is None else _with_passing(found)


def _of_sum(node: ir.Node) -> Rotation | None:
    """Read ``x * cos + turned(x) * sin``."""
    for plain, crossed in orders(node):
        first, second = producer(plain, "Mul"), producer(crossed, "Mul")
        for turned, sin in orders(second):
            found = _turned(turned)
            for x, cos in orders(first) if found is not None else ():
                if found is None or second is None or first is None or x is not found[0]:
                    continue
                source, are_neighbours, nodes = found
                size = last_size(source)
                assert size is not None
                # They have a number for each channel, the same for both of a pair.
                if all(last_size(v) == size and _repeats(v, are_neighbours, _LONGEST_PATH) for v in (cos, sin)):
                    nodes = (*nodes, first, second, node)
                    return Rotation(source, cos, sin, size, are_neighbours, node.outputs[0], nodes)
    return None


def _turned(value: ir.Value) -> tuple[ir.Value, bool, tuple[ir.Node, ...]] | None:
    """Read ``Concat(-second, first)``, or neighbours that change places, and return what is turned."""
    merge = producer(value, "Reshape", "Flatten")
    joined = producer(value if merge is None else merge.inputs[0], "Concat")
    values = inputs_of(joined) if joined is not None and _joins_last(joined) else ()
    if joined is None or len(values) != 2:
        return None
    nodes = [joined] if merge is None else [joined, merge]
    if merge is not None:  # neighbours are joined along an axis of their own
        inserts = [producer(each, "Unsqueeze") for each in values]
        nodes += [each for each in inserts if each is not None and _is_behind(each)]
        values = tuple(value for each in inserts if each is not None for value in inputs_of(each)[:1])
        if len(nodes) != 4:
            return None
    negated = producer(values[0], "Neg")
    second = _part(input_at(negated, 0))
    first = _part(values[1])
    if negated is None or first is None or second is None or first.source is not second.source:
        return None
    size = last_size(first.source)
    expected = _pairs(size or 0, are_neighbours=merge is not None)
    if size is None or size % 2 or [_place(first), _place(second)] != expected:
        return None
    if not are_alike(value, first.source):  # a Reshape may move the other axes, too
        return None
    return first.source, merge is not None, (negated, *reversed(nodes))


def _of_halves(node: ir.Node) -> Rotation | None:
    """Read ``Concat(first * cos - second * sin, second * cos + first * sin)``."""
    given = inputs_of(node) if _joins_last(node) else ()
    less, more = (producer(given[0], "Sub"), producer(given[1], "Add")) if len(given) == 2 else (None, None)
    if less is None or more is None or len(inputs_of(less)) != 2:
        return None
    above = [producer(value, "Mul") for value in inputs_of(less)]
    for below in ([producer(value, "Mul") for value in pair] for pair in orders(more)):
        products = [each for each in (*above, *below) if each is not None]
        if len(products) < 4:
            continue
        for (one, cos), (other, sin) in ((a, b) for a in orders(above[0]) for b in orders(above[1])):
            first, second = _part(one), _part(other)
            if first is None or second is None or first.source is not second.source:
                continue
            size = last_size(first.source) or 0
            is_crossed = {other, cos} == set(inputs_of(products[2])) and {one, sin} == set(inputs_of(products[3]))
            is_whole = size % 2 == 0 and [_place(first), _place(second)] == _pairs(size, are_neighbours=False)
            if is_crossed and is_whole and all(last_size(each) == size // 2 for each in (cos, sin)):
                nodes = (*dict.fromkeys(products), less, more, node)
                return Rotation(first.source, cos, sin, size, False, node.outputs[0], nodes)
    return None


def _with_passing(found: Rotation) -> Rotation:
    """Add the channels that pass behind the turned ones, where a Concat joins both."""
    cut = _part(found.x)
    users = found.end.uses()
    if cut is None or len(users) != 1 or found.end.is_graph_output():
        return found
    join = next(iter(users))[0]
    given = inputs_of(join) if is_standard(join, "Concat") and _joins_last(join) else ()
    passing = _part(given[1]) if len(given) == 2 and given[0] is found.end else None
    size = last_size(cut.source)
    if passing is None or passing.source is not cut.source or size is None:
        return found
    if [_place(cut), _place(passing)] != [(0, found.channels, 1), (found.channels, size, 1)]:
        return found
    return replace(found, x=cut.source, end=join.outputs[0], nodes=(*found.nodes, join))


def _pairs(size: int, *, are_neighbours: bool) -> list[tuple[int, int, int]]:
    """Return the places of the first and of the second channels of all pairs."""
    half = size // 2
    return [(0, size, 2), (1, size, 2)] if are_neighbours else [(0, half, 1), (half, size, 1)]


def _place(part: _Part) -> tuple[int, int, int]:
    return part.start, part.stop, part.step


def _part(value: ir.Value | None) -> _Part | None:
    """Read a value as a part of the last axis of another, by Slice or Split."""
    node = producer(value, "Slice", "Split")
    source = input_at(node, 0)
    size, axes = last_size(source), rank(source)
    if value is None or node is None or source is None or size is None or axes is None:
        return None
    if node.op_type == "Split":
        sizes = [last_size(each) for each in node.outputs]
        known = [each for each in sizes if each is not None]
        if not is_along_last(node, source, 0) or len(known) != len(sizes):
            return None
        place = value.index() or 0
        start = sum(known[:place])
        return _Part(source, start, start + known[place], 1)
    given = [constants.integers(input_at(node, place)) for place in (1, 2, 3)]
    steps = (1,) if input_at(node, 4) is None else constants.integers(input_at(node, 4))
    bounds = [each[0] for each in (*given, steps) if each is not None and len(each) == 1]
    if len(bounds) < 4 or bounds[2] not in (-1, axes - 1) or bounds[3] < 1:
        return None
    start, stop, step = slice(bounds[0], bounds[1], bounds[3]).indices(size)
    return _Part(source, start, stop, step) if start < stop else None


def _joins_last(concat: ir.Node) -> bool:
    return is_along_last(concat, concat.outputs[0], 0)


def _is_behind(unsqueeze: ir.Node) -> bool:
    """Whether an axis is inserted behind all others."""
    axes = constants.integers(input_at(unsqueeze, 1))
    return axes is not None and len(axes) == 1 and axes[0] in (-1, rank(unsqueeze.inputs[0]))


def _repeats(value: ir.Value | None, are_neighbours: bool, depth: int) -> bool:
    """Whether the numbers of both channels of each pair are proven to be the same."""
    if value is None or not depth:
        return False
    if rank(value) == 0 or last_size(value) == 1:
        return True
    tensor = constants.tensor_of(value)
    if tensor is not None:
        return _table_repeats(tensor, are_neighbours)
    node = producer(value)
    given = inputs_of(node)
    if node is None or node.domain or not given:
        return False
    if node.op_type in (*_UNARY, *_BINARY):
        return all(_repeats(each, are_neighbours, depth - 1) for each in given)
    if node.op_type == "Concat" and _joins_last(node) and not are_neighbours:
        return len(given) == 2 and given[0] is given[1]
    if are_neighbours and node.op_type in ("Reshape", "Flatten") and _stacks(given[0], value):
        return True
    moves = keeps_last_axis(node, given[0]) or (_keeps_rows(node, given) and last_size(value) == last_size(given[0]))
    return moves and _repeats(given[0], are_neighbours, depth - 1)


def _keeps_rows(node: ir.Node, given: tuple[ir.Value, ...]) -> bool:
    """Whether a node takes whole rows, or repeats them."""
    if node.op_type == "Gather":
        return not is_along_last(node, given[0], 0)
    if node.op_type == "Transpose":
        axes, order = rank(given[0]) or 0, node.attributes.get_ints("perm", ())
        return len(order) == axes and order[-1] == axes - 1
    return node.op_type in ("Expand", "Slice")  # where the last axis keeps its size


def _stacks(pairs: ir.Value, merged: ir.Value) -> bool:
    """Whether each number of a value stands twice in a row: ``merged`` is ``pairs``, whose last axis holds it twice."""
    node, shape = producer(pairs, "Concat", "Expand"), pairs.shape
    size = last_size(merged)
    if node is None or shape is None or size is None or list(shape[-2:]) != [size // 2, 2]:
        return False
    if node.op_type == "Expand":
        return last_size(node.inputs[0]) == 1
    given = inputs_of(node)
    return len(given) == 2 and _joins_last(node) and given[0] is given[1]


def _table_repeats(tensor: ir.TensorProtocol, are_neighbours: bool) -> bool:
    if tensor.size > _LARGEST_TABLE:
        return False
    table = tensor.numpy()
    half = table.shape[-1] // 2
    halves = table[..., :half], table[..., half:]
    return bool(np.array_equal(*((table[..., ::2], table[..., 1::2]) if are_neighbours else halves)))
