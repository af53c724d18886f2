"""Find the integers that a graph's input may hold, from the nodes that use it."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.core.words import words
from ffn_export.fusion import constants

# Operators that pass on the integers of their first input, all or some, in another shape or dtype.
_CARRIERS = words(
    "Cast Expand Flatten Gather GatherElements Identity Pad Reshape Slice Split Squeeze Tile Transpose Unsqueeze"
)
_MERGES = frozenset({"Concat", "Max", "Min", "Where"})
_SUMS = frozenset({"Add", "Sub"})
_LOOKUPS = frozenset({"Gather", "GatherElements"})
_CONDITIONS = frozenset({"Equal", "Not", "And", "Or", "Xor", "If", "Where"})
# Operator -> index of the input that is a shape or a number of elements.
_SHAPES = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0, "Range": 1, "Tile": 1}
MASK = (0, 1)
_LONGEST_WALK = 256


def value_range(value: ir.Value) -> tuple[int, int]:
    """Return the lowest and the highest number to draw for an integer or boolean input.

    An index is below the size of the smallest table that it indexes. A number of elements is 1 or 2. A mask, and any
    other input, is 0 or 1.
    """
    if value.dtype is None or not value.dtype.is_integer():
        return MASK
    uses = _uses(value)
    if "mask" in str(value.name).lower():
        return 0, min([1, *(row - 1 for row in uses.rows)])
    if uses.rows:
        return 0, min(uses.rows) - 1
    return (1, 2) if uses.is_shape and not uses.is_condition else MASK


def is_index(value: ir.Value) -> bool:
    """Whether an integer input indexes a table as it is, or moved by a number; its range is then that of the table."""
    return bool(_uses(value).rows)


@dataclass(frozen=True)
class _Uses:
    """How an input is used: the rows of the tables that it indexes, and whether it is a shape, or a condition."""

    rows: list[int]
    is_shape: bool
    is_condition: bool


def _uses(value: ir.Value) -> _Uses:
    rows: list[int] = []
    is_shape = is_condition = False
    waiting, seen = [(value, 0)], {value}
    while waiting and len(seen) < _LONGEST_WALK:
        current, offset = waiting.pop()
        for user, place in current.uses():
            if user.op_type in _LOOKUPS and user.domain == "" and place == 1:
                # An offset of the table's size or more only moves negative indices into the table.
                rows.append(_rows(user) - (offset if offset < _rows(user) else 0))
                continue
            is_shape = is_shape or _SHAPES.get(user.op_type) == place
            is_condition = is_condition or _is_condition(user, place)
            for output in _handed_on(user, place):
                if output not in seen:
                    seen.add(output)
                    waiting.append((output, offset + _added(user, place)))
    return _Uses(rows, is_shape, is_condition)


def _rows(lookup: ir.Node) -> int:
    """Return the number of rows of a table; 1 if it depends on symbolic sizes, which is safe for all of them."""
    table = lookup.inputs[0]
    if table is None or table.shape is None or not len(table.shape):
        return 1
    axis = lookup.attributes.get_int("axis", 0)
    size = table.shape[axis] if -len(table.shape) <= axis < len(table.shape) else 1
    return size if isinstance(size, int) and size > 0 else 1


def _is_condition(user: ir.Node, place: int) -> bool:
    if user.op_type == "Where":
        return place == 0
    return user.op_type in _CONDITIONS or (
        user.op_type == "Cast" and user.attributes.get_int("to", 0) == ir.DataType.BOOL.value
    )


def _handed_on(user: ir.Node, place: int) -> tuple[ir.Value, ...]:
    if user.domain != "" or (user.op_type == "Where" and place == 0):
        return ()
    if user.op_type in _SUMS or user.op_type in _MERGES or (user.op_type in _CARRIERS and place == 0):
        return tuple(user.outputs)
    return ()


def _added(user: ir.Node, place: int) -> int:
    """Return by how much a sum with a constant raises an index, such as for positions that begin at 2."""
    if user.op_type not in _SUMS or len(user.inputs) != 2:
        return 0
    other = user.inputs[1 - place]
    number = constants.number(other)
    return 0 if number is None else int(abs(number))
