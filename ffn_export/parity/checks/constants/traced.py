"""A constant beside what it should hold. Large arrays are compared by a sample first and in chunks then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ffn_export.core.drawing import float_info
from ffn_export.core.types import Array

# Nearer than this, relative to the parameter's norm, a constant is that parameter or was meant to be. Two
# independent matrices are about 1.4 apart.
NEAR = 0.1
# Elements of a sample. Two matrices of random numbers that agree on so many are one.
SAMPLED = 64
_CHUNK = 2**20


@dataclass(frozen=True, eq=False)
class Traced:
    """What a constant should hold.

    Attributes:
        parameter: The parameter, or several joined by ``+``.
        how: How it is made of it.
        expected: What it should hold, in the constant's order of elements.
        rounding: How far an element may be off, relative to itself: 0 for a copy, a few roundings for a computation.
        absolute: How far an element may be off besides: of a sum, whose terms may cancel.
        is_equal: Whether the constant is known to hold exactly that.
    """

    parameter: str
    how: str
    expected: Array
    rounding: float = 0.0
    absolute: float = 0.0
    is_equal: bool = False


def places(size: int, most: int = SAMPLED) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return evenly spaced indices, the first and the last among them."""
    return np.linspace(0, size - 1, min(size, most)).astype(np.intp)


def sampled(array: Array) -> Array:
    """Return a few elements, evenly spaced in the array's own order."""
    return array[np.unravel_index(places(array.size), array.shape)].astype(np.float64)


def epsilon(array: Array) -> float:
    """Return the relative spacing of an array's numbers; 0 of integers, which are exact."""
    return 0.0 if array.dtype.kind in "iub" else float(float_info(array.dtype).eps)


def same(stored: Array, expected: Array) -> bool:
    """Whether two arrays hold the same numbers, whatever their dtypes: a weight stored in fewer bits is another."""
    if stored.dtype == expected.dtype and stored.size <= _CHUNK:
        return np.array_equal(stored.reshape(-1), expected.reshape(-1), equal_nan=stored.dtype.kind == "f")
    return all(bool(((a == b) | (np.isnan(a) & np.isnan(b))).all()) for a, b in _chunks(stored, expected))


def distance(stored: Array, expected: Array) -> float:
    """Return the L2 distance relative to what is expected; 0 where most elements are exact and the rest are not."""
    equal, size, squares, norm = 0, 0, 0.0, 0.0
    for have, want in _chunks(stored, expected):
        with np.errstate(invalid="ignore", over="ignore"):  # of infinities, which a mask is made of
            apart = np.where(have == want, 0.0, have - want)
            squares += float(np.square(apart).sum())
            norm += float(np.square(want).sum())
        equal += int(np.count_nonzero(apart == 0))
        size += have.size
    if 2 * equal > size and norm > 0:
        return 0.0
    found = np.sqrt(squares / norm) if norm else np.sqrt(squares)
    return float(found) if np.isfinite(found) else np.inf


def mostly(stored: Array, expected: Array, rounding: float, absolute: float = 0.0, share: float = 0.5) -> bool:
    """Whether most numbers are what is expected, and they are not all alike: ones are a multiple of anything flat.

    Zeros do not count: they are a multiple of everything.
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
    """Return how many elements are off, the largest difference, the relative L2 distance, and where the largest is.

    The difference is relative to the largest magnitude that is expected.
    """
    largest = max(
        (float(np.abs(want[np.isfinite(want)]).max(initial=0.0)) for _, want in _chunks(stored, traced.expected)),
        default=0.0,
    )
    largest = largest or 1.0
    # Where terms cancel, what a computation rounds is a share of the terms.
    least = max(min(traced.rounding, 2.0**-21) * largest, traced.absolute)
    differing, worst, where, squares, norm, start = 0, 0.0, 0, 0.0, 0.0, 0
    for have, want in _chunks(stored, traced.expected):
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(have - want)
            right = (have == want) | (apart <= np.maximum(traced.rounding * np.abs(want), least))
        apart = np.nan_to_num(np.where(right, 0.0, apart), nan=np.inf)
        differing += int(np.count_nonzero(apart))
        if apart.size and apart.max() > worst:
            worst, where = float(apart.max()), start + int(apart.argmax())
        squares += float(np.square(apart).sum())
        norm += float(np.square(want[np.isfinite(want)]).sum())
        start += have.size
    return differing, worst / largest, float(np.sqrt(squares / (norm or 1.0))), where


def _chunks(stored: Array, expected: Array) -> Iterator[tuple[Array, Array]]:
    one, other = stored.reshape(-1), expected.reshape(-1)
    for start in range(0, one.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        yield one[part].astype(np.float64), other[part].astype(np.float64)
