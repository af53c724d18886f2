"""Pad a weight so that the rows that its product reads do not compete for one cache set.

A first-level cache of x86 selects the set of a line by twelve bits of its address, so rows that lie a multiple of 4096
bytes apart all compete for one set of eight lines. A kernel of ONNX Runtime reads twelve rows at once: with 1024, 2048,
3072 or 4096 features in float32, each row evicts another. (Intel's "64 and IA-32 Optimization Reference Manual" advises
against these strides under "Capacity Limits and Aliasing in Caches".) One more cache line in a row spreads the rows
over all sets.

The padding does not change the result for any input, including infinities and NaN. The input gets zeros, and its weight
rows of zeros. The hidden layer gets its first units a second time, with their weights in the second product halved:
``h w/2 + h w/2`` is exactly ``h w``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array

Fill = Literal["zeros", "again", "halved"]

RULE = "padded-widths"
SUFFIX = "_padded"  # of the names of padded values
PERIOD_BYTES = 4096
UNITS = 16  # of float32 in a cache line
# Metadata of a padded value, saved with the model: its paddings and its name before.
_KEY, _NAME_KEY = "pkg.ffn_export.padded", "pkg.ffn_export.padded_from"


@dataclass(frozen=True)
class Padding:
    """Padding along one axis of a constant.

    Attributes:
        axis: Axis.
        fill: ``zeros``, the first units ``again``, or again and both times ``halved``.
        parts: Number of equal parts side by side along the axis, each of which is padded.
    """

    axis: int
    fill: Fill
    parts: int = 1

    @property
    def added(self) -> int:
        """Number of elements by which the axis grows."""
        return self.parts * UNITS


def is_aliased(size: int) -> bool:
    """Whether float32 rows of this size lie a multiple of the period apart."""
    return size > 0 and 4 * size % PERIOD_BYTES == 0


def padded(array: Array, paddings: Sequence[Padding]) -> Array:
    """Return an array with padding."""
    for padding in paddings:
        array = _each(_FILLS[padding.fill], array, padding)
    return array


def plain(array: Array, paddings: Sequence[Padding]) -> Array:
    """Return an array without its padding."""
    for padding in reversed(paddings):
        array = _each(_halved_back if padding.fill == "halved" else _without, array, padding)
    return array


def is_intact(value: ir.Value) -> bool:
    """Whether the padding of a constant still has its original numbers."""
    if value.const_value is None:
        return False
    for padding in paddings_of(value):
        for part in np.split(np.moveaxis(value.const_value.numpy(), padding.axis, 0), padding.parts):
            first = np.zeros_like(part[:UNITS]) if padding.fill == "zeros" else part[:UNITS]
            if not np.array_equal(part[-UNITS:], first, equal_nan=True):
                return False
    return True


def plain_shape(value: ir.Value) -> ir.Shape:
    """Return the shape that a value of known shape had before it was padded."""
    assert value.shape is not None
    sizes = list(value.shape)
    for padding in paddings_of(value):
        size = sizes[padding.axis]
        assert isinstance(size, int)
        sizes[padding.axis] = size - padding.added
    return ir.Shape(sizes)


def note(value: ir.Value, paddings: Sequence[Padding], name: str) -> None:
    """Record a value's name before padding, and its paddings if it is a constant."""
    value.metadata_props[_NAME_KEY] = name
    if paddings:
        value.metadata_props[_KEY] = " ".join(f"{each.axis}:{each.fill}:{each.parts}" for each in paddings)


def forget(value: ir.Value) -> str:
    """Remove the recorded paddings and name of a value, and return the name."""
    value.metadata_props.pop(_KEY, None)
    return value.metadata_props.pop(_NAME_KEY, "") or str(value.name).removesuffix(SUFFIX)


def paddings_of(value: ir.Value) -> tuple[Padding, ...]:
    """Return the recorded paddings of a value; none if they do not fit its shape."""
    text = value.metadata_props.get(_KEY)
    if not text or value.shape is None:
        return ()
    read = [_read(each) for each in text.split(" ")]
    paddings = tuple(each for each in read if each is not None)
    axes = [each.axis for each in paddings]
    fits = len(paddings) == len(read) and len(set(axes)) == len(axes) and all(_fits(value, each) for each in paddings)
    return paddings if fits else ()


def _read(text: str) -> Padding | None:
    axis, _, rest = text.partition(":")
    named, _, parts = rest.partition(":")
    fill = next((known for known in _FILLS if known == named), None)
    if fill is None or not (axis.isdecimal() and parts.isdecimal()):
        return None
    return Padding(int(axis), fill, int(parts))


def _fits(value: ir.Value, padding: Padding) -> bool:
    assert value.shape is not None
    size = value.shape[padding.axis] if padding.axis < len(value.shape) else None
    # An axis that is padded by copies of its first units has these units.
    return isinstance(size, int) and padding.parts > 0 and size % padding.parts == 0 and size >= 2 * padding.added


def _each(change: Callable[[Array], Array], array: Array, padding: Padding) -> Array:
    """Change each part, with its units along the first axis."""
    parts = np.split(np.moveaxis(array, padding.axis, 0), padding.parts)
    return np.moveaxis(np.concatenate([change(part) for part in parts]), 0, padding.axis)


def _with_zeros(part: Array) -> Array:
    return np.concatenate([part, np.zeros((UNITS, *part.shape[1:]), part.dtype)])


def _with_first_again(part: Array) -> Array:
    return np.concatenate([part, part[:UNITS]])


def _with_first_halved(part: Array) -> Array:
    half = part[:UNITS] / part.dtype.type(2)
    return np.concatenate([half, part[UNITS:], half])


_FILLS: Mapping[Fill, Callable[[Array], Array]] = {
    "zeros": _with_zeros,
    "again": _with_first_again,
    "halved": _with_first_halved,
}


def _without(part: Array) -> Array:
    return part[:-UNITS]


def _halved_back(part: Array) -> Array:
    return np.concatenate([part[:UNITS] * part.dtype.type(2), part[UNITS:-UNITS]])
