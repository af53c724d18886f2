"""Rules of operators that move, repeat or count elements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ffn_export.parity.cases.sizes.expressions import Expression
from ffn_export.parity.cases.sizes.facts import (
    MOST_ITEMS,
    Fact,
    Kind,
    Operation,
    Rule,
    as_items,
    integers,
    is_one,
    scalar,
    vector,
)

_TO_THE_END = 2**31 - 1


def _shape(op: Operation) -> Fact:
    if op.inputs[0] is None or op.inputs[0].shape is None:
        return Fact(op.kind, last=op.unknown("a size"))
    end = op.node.attributes.get_int("end", len(op.inputs[0].shape))
    shape = op.inputs[0].shape[op.node.attributes.get_int("start", 0) : end]
    return op.known(vector(shape))


def _size(op: Operation) -> Fact:
    shape = None if op.inputs[0] is None else op.inputs[0].shape
    return op.known(scalar(op.unknown("elements") if shape is None else op.make.product(shape)))


def _nonzero(op: Operation) -> Fact:
    given = op.inputs[0]
    if given is None or given.shape is None or given.kind is Kind.DATA:
        return Fact(op.kind)
    count = op.make.product(given.shape)
    last = op.make.of("-", given.shape[-1] if given.shape else count, op.make.number(1))
    return Fact(op.kind, (op.make.number(len(given.shape)), count), None, last)


def _expand(op: Operation) -> Fact:
    given, shape = op.inputs[0], op.sizes(1)
    if given is None or given.shape is None or shape is None:
        return Fact(op.kind, last=None if given is None else given.sample)
    wide = op.broadcast([given.shape, shape])
    numbers = None if wide is None else integers(wide)
    if given.items is not None and numbers is not None and math.prod(numbers) <= MOST_ITEMS:
        return op.known(np.broadcast_to(given.items, numbers), is_float=given.is_float)
    return Fact(op.kind, wide, None, given.sample, given.is_float, given.is_same or is_one(given))


def _identity(op: Operation) -> Fact:
    given = op.inputs[0]
    assert given is not None
    return replace(given, kind=op.kind)


def _gather(op: Operation) -> Fact:
    table, index = op.inputs[0], op.inputs[1]
    assert table is not None
    assert index is not None
    axis = op.node.attributes.get_int("axis", 0)
    numbers = index.numbers
    if table.items is not None and numbers is not None and index.items is not None and table.items.ndim:
        places = np.array(numbers, dtype=np.int64).reshape(index.items.shape)
        rows = table.items.shape[axis]
        if places.size and (abs(places) <= rows).all() and (places < rows).all():
            taken = table.items.take(places % rows, axis)
            return op.known(as_items(taken), is_float=table.is_float)
    shape = None
    if table.shape is not None and index.shape is not None and table.shape:
        axis %= len(table.shape)
        shape = (*table.shape[:axis], *index.shape, *table.shape[axis + 1 :])
    last = table.sample if table.is_same or numbers is not None else _looked_up(op, table, index)
    return Fact(op.kind, shape, None, last, table.is_float)


def _looked_up(op: Operation, table: Fact, index: Fact) -> Expression | None:
    """Return the element of a small 1-D table, or else the index, which tells its rows apart, clamped to them."""
    if table.items is not None and table.items.ndim == 1 and index.sample is not None:
        result: Expression = table.items[-1]
        for place, item in reversed(list(enumerate(table.items[:-1]))):
            result = op.make.of("where", op.make.of("<=", index.sample, op.make.number(place)), item, result)
        return result
    rows = table.shape[0] if table.shape else None
    if index.sample is None or rows is None:
        return index.sample
    return op.make.of("min", index.sample, op.make.of("-", rows, op.make.number(1)))


def _slice(op: Operation) -> Fact:
    given = op.inputs[0]
    if given is None or given.shape is None or len(op.inputs) < 3:
        return Fact(op.kind)
    starts, ends, axes, steps = (op.sizes(place) for place in (1, 2, 3, 4))
    if starts is None or ends is None:
        return Fact(op.kind)
    where = list(range(len(starts))) if axes is None else [int(axis.number or 0) for axis in axes]
    by = [1] * len(starts) if steps is None else [int(step.number or 0) for step in steps]
    cuts: list[Any] = [slice(None)] * len(given.shape)
    shape = list(given.shape)
    for axis, start, end, step in zip(where, starts, ends, by, strict=False):
        cuts[axis] = _cut(start, end, step)
        # The length of a slice compares its constant bounds with the size.
        length = op.make.of("-", _place(op, shape[axis], end), _place(op, shape[axis], start)) if step == 1 else None
        shape[axis] = length or op.unknown("a size")
    if given.items is not None and None not in cuts:
        return op.known(as_items(given.items[tuple(cuts)]), is_float=given.is_float)
    return Fact(op.kind, tuple(shape), None, given.sample if given.is_same else None, given.is_float, given.is_same)


def _place(op: Operation, size: Expression, place: Expression) -> Expression:
    number = place.number
    if number is not None and number >= _TO_THE_END:
        return size
    if number is not None and number < 0:
        return op.make.of("max", op.make.of("+", size, place), op.make.number(0))
    return place if number == 0 else op.make.of("min", place, size)


def _concat(op: Operation) -> Fact:
    given = [each for each in op.inputs if each is not None]
    axis = op.node.attributes.get_int("axis", 0)
    is_float = any(each.is_float for each in given)
    if all(each.items is not None for each in given):
        return op.known(np.concatenate([each.items for each in given], axis), is_float=is_float)
    shapes = [each.shape for each in given if each.shape]
    if len(shapes) < len(given):
        return Fact(op.kind, last=given[-1].sample, is_float=is_float)
    axis %= len(shapes[0])
    total = op.folded("+", [shape[axis] for shape in shapes]) if len(shapes) > 1 else shapes[0][axis]
    return Fact(op.kind, (*shapes[0][:axis], total, *shapes[0][axis + 1 :]), None, given[-1].sample, is_float)


def _reshape(op: Operation) -> Fact:
    given, sizes = op.inputs[0], op.sizes(1)
    if given is None or sizes is None:
        return Fact(op.kind, last=None if given is None else given.sample)
    wanted = list(sizes)
    if given.shape is not None and not op.node.attributes.get_int("allowzero", 0):
        old = given.shape
        wanted = [old[i] if size.number == 0 and i < len(old) else size for i, size in enumerate(wanted)]
    open_axis = next((i for i, size in enumerate(wanted) if size.number == -1), None)
    if open_axis is not None:
        rest = op.make.product(size for i, size in enumerate(wanted) if i != open_axis)
        total = None if given.shape is None else op.make.product(given.shape)
        if total is None:
            wanted[open_axis] = op.unknown("a size")
        else:  # an exact quotient: unlike that of ``//``, the result has no steps
            wanted[open_axis] = total if rest.number == 1 else op.make.of("by", total, rest)
    numbers = integers(wanted)
    if given.items is not None and numbers is not None and given.items.size == math.prod(numbers):
        return op.known(given.items.reshape(numbers), is_float=given.is_float)
    return op.moved(given, tuple(wanted))


def _unsqueeze(op: Operation) -> Fact:
    given, axes = op.inputs[0], op.integers(1)
    assert given is not None
    if axes is None or given.shape is None:
        return op.moved(given, None)
    if given.items is not None:
        return op.known(np.expand_dims(given.items, tuple(axes)), is_float=given.is_float)
    rank = len(given.shape) + len(axes)
    at, rest = {axis % rank for axis in axes}, iter(given.shape)
    return op.moved(given, tuple(op.make.number(1) if axis in at else next(rest) for axis in range(rank)))


def _squeeze(op: Operation) -> Fact:
    given, axes = op.inputs[0], op.integers(1)
    assert given is not None
    if given.items is not None:
        items = given.items.squeeze(None if axes is None else tuple(axes))
        return op.known(as_items(items), is_float=given.is_float)
    shape = None
    if given.shape is not None and axes is not None:
        at = {axis % len(given.shape) for axis in axes}
        shape = tuple(size for axis, size in enumerate(given.shape) if axis not in at)
    return op.moved(given, shape)


def _transpose(op: Operation) -> Fact:
    given = op.inputs[0]
    assert given is not None
    if given.shape is None:
        return op.moved(given, None)
    order = list(op.node.attributes.get_ints("perm", ()) if "perm" in op.node.attributes else ())
    order = order or list(range(len(given.shape)))[::-1]
    items = None if given.items is None else given.items.transpose(order)
    return Fact(op.kind, tuple(given.shape[i] for i in order), items, given.last, given.is_float, given.is_same)


def _cut(start: Expression, end: Expression, step: int) -> slice | None:
    if start.number is None or end.number is None or not step:
        return None
    return slice(int(start.number), int(end.number) if abs(end.number) < _TO_THE_END else None, step)


MOVING: Mapping[str, Rule] = {
    "Shape": _shape,
    "Size": _size,
    "NonZero": _nonzero,
    "Expand": _expand,
    "Identity": _identity,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
}
