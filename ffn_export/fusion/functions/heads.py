"""Read how the heads of queries, keys and values lie, and write them as rows ``[batch, length, heads * size]``.

Heads stand first in a product, ``[batch, heads, length, size]``, or batch and heads are one axis, ``[batch * heads,
length, size]``. Usually they are split off rows by a Reshape and a Transpose. Reading goes back as far as nodes only
move or scale numbers; what is read is proven by the shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.functions.axes import Axes, Factor
from ffn_export.fusion.functions.axes import behind as axes_behind
from ffn_export.fusion.shapes import are_same_axes
from ffn_export.fusion.views import input_at, inputs_of, ints_of, is_standard, producer, rank

_Size = int | ir.SymbolicDim
FIRST, LAST, _ROWS, _TURNED = "first", "last", "rows", "turned"
_LENGTH_FIRST = "length first"
_LONGEST_MOVE = 16


@dataclass(frozen=True)
class Heads:
    """Queries, keys or values.

    Attributes:
        value: Where they are read.
        order: How they lie: heads ``first``, ``[batch, heads, length, size]``; ``last``, ``[batch, length, heads,
            size]``; ``rows``; ``turned``, ``[batch, heads, size, length]`` or ``[batch, size, length]``; or ``length
            first``, ``[length, batch, heads * size]``.
        batch: Size of the batch.
        length: Length.
        count: Number of heads, before they are repeated.
        size: Size of a head.
        scale: Factor that the graph applies behind the value.
        part: Which part of the last axis they are, if the value holds several of them beside each other in rows.
        parts: Number of these parts.
    """

    value: ir.Value
    order: str
    batch: _Size
    length: _Size
    count: int
    size: int
    scale: float = 1.0
    part: int = 0
    parts: int = 1

    @property
    def is_in_rows(self) -> bool:
        """Whether they lie in rows, or are one Reshape away."""
        return self.order in (_ROWS, LAST, _LENGTH_FIRST)

    @property
    def has_length_first(self) -> bool:
        """Whether the length stands before the batch."""
        return self.order == _LENGTH_FIRST

    def rows(self, op: Builder) -> ir.Value:
        """Return them as rows, all parts if there are several."""
        value = self.value
        if self.has_length_first:
            y = op.Transpose(value, perm=[1, 0, 2])
            y.type = value.type
            return y
        if self.order == FIRST:
            value = op.Transpose(value, perm=[0, 2, 1, 3])
        elif self.order == _TURNED:
            value = op.Transpose(value, perm=[0, 3, 1, 2] if rank(value) == 4 else [0, 2, 1])
        if self.order == _ROWS or rank(self.value) == 3:
            return value
        rows = op.Reshape(value, op.integers(0, 0, self.count * self.size))
        rows.type, rows.shape = self.value.type, ir.Shape([self.batch, self.length, self.count * self.size])
        return rows


def read_back(heads: Heads) -> Heads:
    """Read back over nodes that move or scale heads, as far as they can be described."""
    return _back(heads, may_repeat=False)


def read_rows(value: ir.Value, *, may_repeat: bool = False) -> Heads | None:
    """Read an operand with heads first, ``[batch, heads, length, size]``."""
    axes = _four(value)
    if axes is None:
        return None
    batch, count, length, size = axes
    if not isinstance(count, int) or not isinstance(size, int) or count < 1 or size < 1:
        return None
    return _moved(_back(Heads(value, FIRST, batch, length, count, size), may_repeat))


def read_keys(value: ir.Value) -> Heads | None:
    """Read the second operand of the scores, ``[batch, heads, size, length]``: keys, with their last axes turned."""
    value, scale = unscaled(value)
    axes = _four(value)
    if axes is None:
        return None
    batch, count, size, length = axes
    found: Heads | None = None
    if (source := _before_turn(value, 0, 2, 3, 1)) is not None:
        if isinstance(count, int) and isinstance(size, int) and count > 0 and size > 0:
            found = _back(Heads(source, LAST, batch, length, count, size), may_repeat=True)
    elif (source := _before_turn(value, 0, 1, 3, 2) or _turned_in_rows(value)) is not None:
        found = read_rows(source, may_repeat=True)
    if found is None and isinstance(count, int) and isinstance(size, int) and count > 0 and size > 0:
        found = _moved(Heads(value, _TURNED, batch, length, count, size))
    return None if found is None else replace(found, scale=found.scale * scale)


def read_joined(value: ir.Value, *, apart: bool, are_keys: bool = False, may_repeat: bool = True) -> Heads | None:
    """Read an operand in which batch and heads are one axis, ``[batch * heads, length, size]``.

    Args:
        value: The operand.
        apart: Whether to read batch and heads apart, from before they were joined. Otherwise they count as a batch, of
            one head each.
        are_keys: Whether these are keys, with the last two axes turned.
        may_repeat: Whether heads may be repeated for their group.
    """
    value, scale = unscaled(value)
    if are_keys and (source := _before_turn(value, 0, 2, 1)) is not None:
        value, further = unscaled(source)
        scale, are_keys = scale * further, False
    found: Heads | None = None
    if apart:
        before = _before_joining(value)
        if before is not None:
            found = read_keys(before) if are_keys else read_rows(before, may_repeat=may_repeat)
    elif value.shape is not None and len(value.shape) == 3:
        batch, length, size = value.shape
        if are_keys:
            length, size = size, length
        if isinstance(size, int) and size > 0:
            found = Heads(value, _TURNED if are_keys else _ROWS, batch, length, 1, size)
    return None if found is None else replace(found, scale=found.scale * scale)


def _before_joining(value: ir.Value) -> ir.Value | None:
    """Step back over the Reshape that joins batch and heads."""
    source = input_at(producer(value, "Reshape"), 0)
    axes = None if source is None else _four(source)
    if axes is None or value.shape is None or len(value.shape) != 3:
        return None
    return source if are_same_axes(axes[2:], value.shape[1:]) else None


def unscaled(value: ir.Value) -> tuple[ir.Value, float]:
    """Step back over factors that are numbers, and return the value before them and their product."""
    scale = 1.0
    while (node := producer(value, "Mul", "Div")) is not None and (found := factor_of(node)) is not None:
        value, scale = found[0], scale * found[1]
    return value, scale


def factor_of(node: ir.Node) -> tuple[ir.Value, float] | None:
    """Return what a node scales by a number, and the factor; None for any other node."""
    if not is_standard(node, "Mul", "Div") or len(inputs_of(node)) != 2:
        return None
    first, second = inputs_of(node)
    pairs = [(first, second)] if node.op_type == "Div" else [(first, second), (second, first)]
    found = next(((x, number) for x, other in pairs if (number := _factor(other, x)) is not None), None)
    if found is None or node.op_type == "Mul":
        return found
    return None if found[1] == 0 else (found[0], 1 / found[1])


def _factor(value: ir.Value, of: ir.Value) -> float | None:
    """Return a factor, unless it widens the result."""
    number = constants.number(value)
    return number if number is not None and constants.rank(value) <= (rank(of) or 0) else None


def _back(heads: Heads, may_repeat: bool) -> Heads:
    """Read back over nodes that move or scale, as far as they can be described."""
    while True:
        value, scale = unscaled(heads.value)
        heads = replace(heads, value=value, scale=heads.scale * scale)
        step = _split(heads) if heads.order == LAST else _repeated(heads) if may_repeat else None
        if step is None and heads.order == FIRST and (source := _before_turn(value, 0, 2, 1, 3)) is not None:
            step = replace(heads, value=source, order=LAST)
        if step is None:
            return heads
        heads, may_repeat = step, may_repeat and step.order == FIRST and step.count == heads.count
        if heads.order == _ROWS:
            value, scale = unscaled(heads.value)
            return replace(heads, value=value, scale=heads.scale * scale)


def _moved(heads: Heads) -> Heads:
    """Read back over nodes that only move numbers, to the rows where they begin, if the heads lie in none yet."""
    chain, value = list[tuple[ir.Node, ir.Value]](), heads.value
    while heads.order in (FIRST, _TURNED) and rank(heads.value) == 4 and len(chain) < _LONGEST_MOVE:
        node = value.producer()
        source = input_at(node, 0)
        if node is None or source is None:
            break
        chain.append((node, value))
        value = source
    for start in range(len(chain), 0, -1):
        source = chain[start - 1][0].inputs[0]
        for order in (_ROWS, _LENGTH_FIRST):
            found = None if source is None else _from_rows(heads, source, order, chain[:start][::-1])
            if found is not None:
                return found
    return heads


def _from_rows(heads: Heads, rows: ir.Value, order: str, chain: Sequence[tuple[ir.Node, ir.Value]]) -> Heads | None:
    """Return heads as they lie in rows, if a chain of nodes moves these rows to where the heads are read."""
    width = heads.count * heads.size
    if rows.shape is None or len(rows.shape) != 3 or not isinstance(rows.shape[2], int) or rows.shape[2] % width:
        return None
    parts = rows.shape[2] // width
    first, second, part, count, size = map(Factor, (*rows.shape[:2], parts, heads.count, heads.size))
    axes: Axes = ((first,), (second,), (count, size) if parts == 1 else (part, count, size))
    taken: list[tuple[Factor, int]] = []
    for node, output in chain:
        moved = axes_behind(node, output, axes)
        if moved is None:
            return None
        axes = moved.axes
        taken += [] if moved.taken is None else [moved.taken]
    batch, length = (first, second) if order == _ROWS else (second, first)
    wanted: Axes = ((batch,), (count,), (length,), (size,))
    if heads.order == _TURNED:
        wanted = (*wanted[:2], *wanted[:1:-1])
    # One of the parts is taken; axes with fewer factors than there are would not fit.
    if axes != wanted or len(taken) != (parts != 1):
        return None
    return replace(heads, value=rows, order=order, part=taken[0][1] if taken else 0, parts=parts)


def _split(heads: Heads) -> Heads | None:
    """Step back over the Reshape that splits heads off rows."""
    source = input_at(producer(heads.value, "Reshape"), 0)
    if source is None or source.shape is None or len(source.shape) != 3:
        return None
    wanted = [heads.batch, heads.length, heads.count * heads.size]
    return replace(heads, value=source, order=_ROWS) if are_same_axes(source.shape, wanted) else None


def _repeated(heads: Heads) -> Heads | None:
    """Step back over Unsqueeze, Expand and Reshape, which repeat each head for its group."""
    widen = producer(input_at(producer(heads.value, "Reshape"), 0), "Expand")
    insert = producer(input_at(widen, 0), "Unsqueeze", "Reshape")
    source = input_at(insert, 0)
    if widen is None or insert is None or source is None:
        return None
    axes = _four(source)
    if axes is None:
        return None
    batch, count, length, size = axes
    if not isinstance(count, int) or count < 1 or heads.count % count:
        return None
    times = heads.count // count
    shapes = (
        (insert.outputs[0].shape, [batch, count, 1, length, size]),
        (widen.outputs[0].shape, [batch, count, times, length, size]),
    )
    # The length follows from the number of elements.
    fits = are_same_axes([batch, size], [heads.batch, heads.size]) and all(
        shape is not None and len(shape) == 5 and are_same_axes(shape, wanted) for shape, wanted in shapes
    )
    return replace(heads, value=source, length=length, count=count) if fits else None


def _turned_in_rows(value: ir.Value) -> ir.Value | None:
    """Step back over a turn of the last two axes as torch exports it: over rows of all heads.

    ``Reshape(Transpose(Reshape(keys, [-1, length, size]), [0, 2, 1]), [batch, heads, size, length])``
    """
    merge = producer(_before_turn(input_at(producer(value, "Reshape"), 0), 0, 2, 1), "Reshape")
    source = input_at(merge, 0)
    if merge is None or source is None:
        return None
    axes = _four(value)
    if axes is None or _four(source) is None:
        return None
    batch, count, size, length = axes
    if not are_same_axes(source.shape or (), [batch, count, length, size]):
        return None
    merged = merge.outputs[0].shape
    if merged is None or len(merged) != 3 or merged[2] != size:
        return None
    return source if are_same_axes([merged[1]], [length]) or _takes_length(merge, source) else None


def _takes_length(merge: ir.Node, source: ir.Value) -> bool:
    """Whether the middle one of the three sizes that a Reshape asks for is the length of its input."""
    target = producer(input_at(merge, 1), "Concat")
    is_whole = target is not None and len(target.inputs) == 3 and constants.integers(target.inputs[0]) == (-1,)
    cut = producer(input_at(target, 1), "Slice") if is_whole else None
    shape = producer(input_at(cut, 0), "Shape")
    if cut is None or shape is None or shape.inputs[0] is not source or set(shape.attributes) - {"start"}:
        return False
    bounds = [constants.integers(input_at(cut, place)) for place in (1, 2)]
    return shape.attributes.get_int("start", 0) == 0 and len(cut.inputs) == 3 and bounds == [(-2,), (-1,)]


def _before_turn(value: ir.Value | None, *order: int) -> ir.Value | None:
    """Step back over a Transpose that puts the axes in this order."""
    turn = producer(value, "Transpose")
    return None if turn is None or ints_of(turn, "perm") != order else turn.inputs[0]


def _four(value: ir.Value) -> tuple[_Size, _Size, _Size, _Size] | None:
    """Return the four axes of a value, or None if it has others."""
    if value.shape is None or len(value.shape) != 4:
        return None
    first, second, third, fourth = value.shape
    return first, second, third, fourth
