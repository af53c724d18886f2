"""Sizes for symbolic dimensions and seeded values for inputs.

The exporter traces with these inputs, and parity and latency run on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ffn_export.core.tensor_spec import Dim, TensorSpec, merge_dims
from ffn_export.core.types import Array
from ffn_export.errors import UsageError

# Distinct, so that tied axes show. None is 0 or 1: an axis of size 0 is empty, and one of size 1 broadcasts.
_TRACE_SIZES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
_MOST_NUMBERS = 2**40


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a name in ``tensor_spec.DTYPES``; bfloat16 comes from ml_dtypes."""
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes  # where bundles are only loaded it may be missing

    bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bfloat16


def float_info(dtype: np.dtype[Any]) -> Any:
    """Return ``eps``, ``smallest_normal``, ``smallest_subnormal`` and so on of a floating-point dtype, bfloat16 too."""
    import ml_dtypes

    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def is_floating(array: Array) -> bool:
    """Whether an array holds floating-point numbers, bfloat16 too."""
    return bool(np.issubdtype(array.dtype, np.floating)) or array.dtype.name == "bfloat16"


def trace_sizes(specs: Iterable[TensorSpec], least: int = 2) -> dict[str, int]:
    """Return distinct sizes to trace with, one for each symbolic dimension, within its bounds.

    No size is below ``least``, unless its bounds are.
    """
    sizes: dict[str, int] = {}
    for dim in merge_dims(specs).values():
        wanted = (*(size for size in _TRACE_SIZES if size >= least), *range(max(dim.minimum, least), dim.minimum + 64))
        candidates = (dim.clamp(size) for size in wanted)
        sizes[dim.name] = next((size for size in candidates if size not in sizes.values()), dim.clamp(2))
    return sizes


def fit_sizes(dims: Iterable[Dim], wanted: Mapping[str, int]) -> dict[str, int]:
    """Return a size for each dimension: the wanted size, clamped to its bounds."""
    return {dim.name: dim.clamp(wanted[dim.name]) for dim in dims}


def draw(spec: TensorSpec, sizes: Mapping[str, int], rng: np.random.Generator) -> Array:
    """Draw one input: standard normal floats, fair booleans, numbers of ``value_range``, or a mask.

    Numbers of a range are uniform. A range of more than two integers includes, as far as the shape has room, the
    smallest, the largest, and the three after the smallest, which tokenisers assign to padding and other special
    tokens. Integers without a range are drawn from {0, 1}, which every table and every mask allows.

    Raises:
        UsageError: If the input has too many elements for any memory.
    """
    shape = spec.shape(sizes)
    if math.prod(shape) > _MOST_NUMBERS:
        axes = ",".join(map(str, shape))
        raise UsageError(f"input {spec.name!r} would be drawn as [{axes}], too large for any memory: bound its axes")
    if spec.is_floating:
        drawn = rng.standard_normal(shape) if spec.value_range is None else _uniform(*spec.value_range, shape, rng)
        return drawn.astype(numpy_dtype(spec.dtype))
    if spec.is_mask:
        return _draw_mask(shape, rng).astype(numpy_dtype(spec.dtype))
    low, high = map(int, spec.value_range or (0, 1))
    drawn = rng.integers(low, high, shape, endpoint=True)
    if high - low > 1 and drawn.size > 1:  # random indices of a large table rarely hit its first and last row
        asked = [number for number in (low, high, low + 1, low + 2, low + 3) if number <= high][: drawn.size]
        drawn.flat[rng.permutation(drawn.size)[: len(asked)]] = asked
    return drawn.astype(numpy_dtype(spec.dtype))


def _uniform(low: float, high: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draw numbers of a range. The width of the largest range is no float64, so both ends are halved."""
    halves: Array = rng.uniform(low / 2, high / 2, shape)
    return np.asarray(halves * 2)  # without axes, NumPy's product is a number


def _draw_mask(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draw rows that are padded on the right, on the left, or at random places, each with at least one 1.

    A row without any 1 is an empty batch element. Many modules return NaN for it, from a softmax over nothing, and no
    caller needs it.
    """
    if not shape or not shape[-1]:
        return np.ones(shape, dtype=bool)
    *rows, length = shape
    position = np.arange(length)
    # A place is padding if its rank reaches a drawn length. Ranks rise from the left, from the right, or at random.
    ranks = np.stack(np.broadcast_arrays(position, position[::-1], rng.random(shape).argsort(axis=-1)))
    how = rng.integers(len(ranks), size=(1, *rows, 1))
    there = rng.integers(1, length, size=(*rows, 1), endpoint=True)
    mask: Array = np.take_along_axis(ranks, how, axis=0)[0] < there
    return mask


def draw_all(specs: Iterable[TensorSpec], sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Draw every input from one seed: name -> array."""
    rng = np.random.default_rng(seed)
    return {spec.name: draw(spec, sizes, rng) for spec in specs}
