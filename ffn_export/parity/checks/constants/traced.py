"""Compare a constant with its expected values: large arrays by a sample first, then in chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ffn_export.core.drawing import float_info
from ffn_export.core.types import Array

# Largest distance, relative to the parameter's norm, of a constant that was meant to equal the parameter. Two
# independent matrices are about 1.4 apart.
NEAR = 0.1
# Elements of a sample. Random matrices that agree on all of them are equal.
SAMPLED = 64
_CHUNK = 2**20


@dataclass(frozen=True, eq=False)
class Traced:
    """The expected values of a constant.

    Attributes:
        parameter: Name of the parameter, or several joined by ``+``.
        how: Relation of the constant to the parameter.
        expected: Expected values, in the constant's order of elements.
        rounding: Allowed relative error of an element: 0 for a copy, a few roundings for a computed constant.
        absolute: Allowed absolute error in addition, for sums whose terms may cancel.
        is_equal: Whether the constant is known to equal the expected values.
    """

    parameter: str
    how: str
    expected: Array
    rounding: float = 0.0
    absolute: float = 0.0
    is_equal: bool = False


def places(size: int, most: int = SAMPLED) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return evenly spaced indices, including the first and the last."""
    return np.linspace(0, size - 1, min(size, most)).astype(np.intp)


def sampled(array: Array) -> Array:
    """Return a few elements, evenly spaced in the array's order."""
    return array[np.unravel_index(places(array.size), array.shape)].astype(np.float64)


def epsilon(array: Array) -> float:
    """Return the machine epsilon of an array's dtype; 0 for integers, which are exact."""
    return 0.0 if array.dtype.kind in "iub" else float(float_info(array.dtype).eps)


def magnitude(array: Array) -> float:
    """Return the largest finite magnitude of an array; 0 if it has none. An infinity would widen every bound."""
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def same(stored: Array, expected: Array) -> bool:
    """Whether two arrays hold equal numbers, in any dtypes. A weight rounded to fewer bits is unequal."""
    if stored.dtype == expected.dtype and stored.size <= _CHUNK:
        return np.array_equal(stored.reshape(-1), expected.reshape(-1), equal_nan=stored.dtype.kind not in "iub")
    return all(bool(((a == b) | (np.isnan(a) & np.isnan(b))).all()) for a, b in _chunks(stored, expected))


def distance(stored: Array, expected: Array) -> float:
    """Return the L2 distance relative to the expected values; 0 if more than half of the elements are equal."""
    equal, size, squares, norm, has_infinity = 0, 0, 0.0, 0.0, False
    for have, want in _chunks(stored, expected):
        with np.errstate(invalid="ignore", over="ignore"):  # masks hold infinities
            apart = np.where(have == want, 0.0, have - want)
            squares += float(np.square(apart).sum())
            norm += float(np.square(want[np.isfinite(want)]).sum())  # an infinite one would make all near
        has_infinity |= bool(np.isinf(want).any())
        equal += int(np.count_nonzero(apart == 0))
        size += have.size
    if 2 * equal > size and (norm > 0 or has_infinity):
        return 0.0
    found = np.sqrt(squares / norm) if norm else np.sqrt(squares)
    return float(found) if np.isfinite(found) else np.inf


def mostly(stored: Array, expected: Array, rounding: float, absolute: float = 0.0, share: float = 0.5) -> bool:
    """Whether most numbers are as expected, and these are not all equal, since any flat array is a multiple of another.

    Zeros do not count, as they are a multiple of every number.
    """
    near, used, low, high = 0, 0, np.inf, -np.inf
    for have, want in _chunks(stored, expected):
        counted = (want != 0) & np.isfinite(want)
        with np.errstate(invalid="ignore", over="ignore"):
            right = counted & (np.abs(have - want) <= rounding * np.abs(want) + absolute)
        near += int(np.count_nonzero(right))
        used += int(np.count_nonzero(counted))
        low, high = min(low, want[right].min(initial=np.inf)), max(high, want[right].max(initial=-np.inf))
    return near > share * used and low < high


def off(stored: Array, traced: Traced) -> tuple[int, float, float, int]:
    """Measure the difference of a constant from its expected values.

    Returns:
        Number of wrong elements, largest difference relative to the largest expected magnitude, relative L2 distance
        (infinite of integers, which no rounding changes), and flat index of the largest difference.
    """
    largest = max((magnitude(want) for _, want in _chunks(stored, traced.expected)), default=0.0) or 1.0
    # If terms cancel, the rounding error is relative to the terms, not to the result.
    least = max(min(traced.rounding, 2.0**-21) * largest, traced.absolute)
    differing, worst, where, squares, norm, start = 0, 0.0, 0, 0.0, 0.0, 0
    for have, want in _chunks(stored, traced.expected):
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(have - want)
            right = (
                (have == want)
                | (np.isnan(have) & np.isnan(want))
                | (apart <= np.maximum(traced.rounding * np.abs(want), least))
            )
        apart = np.nan_to_num(np.where(right, 0.0, apart), nan=np.inf)
        differing += int(np.count_nonzero(apart))
        if apart.size and apart.max() > worst:
            worst, where = float(apart.max()), start + int(apart.argmax())
        with np.errstate(over="ignore"):  # infinitely far
            squares += float(np.square(apart).sum())
        norm += float(np.square(want[np.isfinite(want)]).sum())
        start += have.size
    relative = float(np.sqrt(squares / (norm or 1.0)))
    is_counted = stored.dtype.kind in "iub" and traced.expected.dtype.kind in "iub"
    return differing, worst / largest, math.inf if differing and is_counted else relative, where


def _chunks(stored: Array, expected: Array) -> Iterator[tuple[Array, Array]]:
    one, other = stored.reshape(-1), expected.reshape(-1)
    for start in range(0, one.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        have, want = one[part].astype(np.float64), other[part].astype(np.float64)
        if one.dtype.kind in "iu" and other.dtype.kind in "iu":  # beyond 2**53, different ones may become equal
            have = np.where((one[part] != other[part]) & (have == want), np.nextafter(have, np.inf), have)
        yield have, want
