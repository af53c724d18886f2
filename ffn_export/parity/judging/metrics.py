"""Distance of an output from the oracle."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.fills import fills
from ffn_export.core.types import Array
from ffn_export.parity.judging.measures import UNITS_OF_AN_ELEMENT, Deviation, OutputMetrics
from ffn_export.parity.judging.tolerances import ratio

_BINS = 4096

# PyTorch is lost on a row if its error is this many times that of most rows: for example on a row that sees no key,
# whose scores vanish in -1e9 in float32 and not in float64. Narrow rows are exempt, as their errors vary by chance.
_LOST = 16
_NARROW = 16


def compare(
    name: str,
    actual: Array | None,
    oracle: Array,
    baseline: Array,
    conditioning: float = 0.0,
    computed_in: str | None = None,
) -> OutputMetrics:
    """Measure the distance of one output, and of the baseline, from the oracle.

    Args:
        name: Name of the output.
        actual: Output of the runtime, or None if it is missing.
        oracle: Float64 (or integer) truth.
        baseline: PyTorch's output in the working dtype, which defines the expected dtype and shape.
        conditioning: Change of the oracle under one rounding of the inputs, if the case is ill-conditioned.
        computed_in: Dtype that the reference computes the output in, if coarser than the output's dtype.
    """
    if actual is None:
        return OutputMetrics(name, problem="the runtime has no such output")
    dtype = str(actual.dtype)
    if actual.shape != baseline.shape:
        return OutputMetrics(name, dtype, problem=f"shape {list(actual.shape)}, expected {list(baseline.shape)}")
    if actual.dtype != baseline.dtype:
        return OutputMetrics(name, dtype, problem=f"dtype {actual.dtype}, expected {baseline.dtype}")
    if not _is_floating(actual.dtype):
        return _of_integers(name, actual, oracle, baseline, conditioning)
    have, truth, own = (array.astype(np.float64) for array in (actual, oracle, baseline))
    filled = fills(truth)
    computed = truth if filled is None else np.where(filled, np.nan, truth)
    scale = _scale(np.where(np.isfinite(own), computed, np.nan))  # without what is beyond the dtype
    least = 0.0 if filled is None or scale else 1.0  # zeros beside fills are judged as numbers of the size of 1
    scale = scale or least
    unit = unit_in_the_last_place(scale, actual.dtype)
    exact_error = error = _error(have, truth)
    own_error = _error(own, truth)
    if filled is not None:  # fills are judged at the scale of the fills
        weight = unit / unit_in_the_last_place(_scale(truth[filled]), actual.dtype)
        error, own_error = (np.where(filled, weight * each, each) for each in (error, own_error))
    settled = _settled(own_error, unit)
    settled_error = np.where(settled, error, 0.0)
    other = ~_same_kind(have, truth) & ~_same_kind(have, own)
    dropped = ~np.isfinite(truth) & ~np.isfinite(own) & other
    unexpected = ~(np.isfinite(have) & np.isfinite(truth)) & other & ~dropped
    return OutputMetrics(
        output=name,
        dtype=dtype,
        scale=scale,
        actual=_deviation(have, computed, error, unit, least),
        baseline=_deviation(own, computed, own_error, unit, least),
        settled_ulps=float(settled_error.max(initial=0.0)) / unit,
        settled_baseline_ulps=float(own_error.max(initial=0.0, where=settled)) / unit,
        settled_index=_index(settled_error),
        conditioning_ulps=conditioning / unit,
        unexpected=int(np.count_nonzero(unexpected)),
        unexpected_index=_index(unexpected) if unexpected.any() else (),
        dropped=int(np.count_nonzero(dropped)),
        frontier=frontier(exact_error, np.abs(truth)),
        elements=int(np.count_nonzero(np.isfinite(have) & np.isfinite(truth))),
        inner_units=1.0 if computed_in is None else unit_in_the_last_place(scale, numpy_dtype(computed_in)) / unit,
    )


def _of_integers(name: str, actual: Array, oracle: Array, baseline: Array, conditioning: float) -> OutputMetrics:
    """Compare integers or booleans for equality.

    The size of a difference means nothing: ArgMax may return the index of either of two equal numbers. The comparison
    is not made in float64, which holds only 53 bits of an integer. Of strings, equal ones count as one number.
    """
    if actual.dtype.kind in "OUS":
        places = np.unique(np.concatenate([actual, oracle, baseline], axis=None), return_inverse=True)[1]
        codes = [part.reshape(actual.shape) for part in np.split(places, 3)]
        return replace(_of_integers(name, codes[0], codes[1], codes[2], conditioning), dtype=str(actual.dtype))
    have, truth, own = (array.astype(np.float64) for array in (actual, oracle, baseline))
    unit = 1.0 / UNITS_OF_AN_ELEMENT
    error, own_error = _apart(actual, oracle), _apart(baseline, oracle)
    wrong, flipped = (actual != oracle) & (actual != baseline), baseline != oracle
    deviation, own_deviation = _deviation(have, truth, error, unit), _deviation(own, truth, own_error, unit)
    return OutputMetrics(
        output=name,
        dtype=str(actual.dtype),
        scale=_scale(truth),
        actual=replace(deviation, ulps=float(wrong.sum()) / unit, worst_index=_index(wrong)),
        baseline=replace(own_deviation, ulps=float(flipped.sum()) / unit),
        conditioning_ulps=conditioning / unit,
        frontier=frontier(error, np.abs(truth)),
        elements=actual.size,
    )


def _scale(truth: Array) -> float:
    """Return the largest finite magnitude."""
    return float(np.abs(truth[np.isfinite(truth)]).max(initial=0.0))


def unit_in_the_last_place(scale: float, dtype: np.dtype[np.generic]) -> float:
    """Return the spacing of a floating-point ``dtype`` at ``scale``."""
    with np.errstate(over="ignore", invalid="ignore"):
        number = np.asarray(scale).astype(dtype)
        # Nothing is above the largest number, which masks use, nor above what is beyond the dtype.
        while np.isinf(number) or np.isinf(np.spacing(number)):
            number = np.nextafter(number, np.zeros_like(number))
    return float(np.abs(np.spacing(number).astype(np.float64)))


def _is_floating(dtype: np.dtype[np.generic]) -> bool:
    return dtype.kind in "fV" or dtype.name in ("bfloat16", "float16")


def frontier(error: Array, size: Array) -> tuple[tuple[float, float], ...]:
    """Return the elements that decide any test ``error <= atol + rtol * size``, as ``(error, size)``.

    For one ``rtol`` the element with the largest ``error - rtol * size`` decides. For all ``rtol >= 0`` the deciding
    elements are the corners of the upper convex hull on its rising side, which are few (Andrew 1979, "Another
    efficient algorithm for convex hulls in two dimensions").
    """
    sizes, errors = size.ravel(), error.ravel()
    candidates = np.isfinite(sizes) & (errors > 0)
    candidates[candidates] = _rises(sizes[candidates], errors[candidates])
    order = np.lexsort((-errors[candidates], sizes[candidates]))
    hull: list[tuple[float, float]] = []
    for point in zip(sizes[candidates][order].tolist(), errors[candidates][order].tolist(), strict=True):
        if hull and point[1] <= hull[-1][1]:
            continue  # an element of smaller magnitude has a larger error and always decides
        while len(hull) > 1 and _turns_left(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return tuple((difference, magnitude) for magnitude, difference in hull)


def _rises(sizes: Array, errors: Array) -> Array:
    """Whether an error exceeds those of all clearly smaller magnitudes. Few of millions do; only they can decide."""
    bins = np.minimum(sizes / (sizes.max(initial=0.0) or 1.0) * _BINS, _BINS - 1).astype(np.intp)
    largest = np.zeros(_BINS + 1)
    np.maximum.at(largest, bins + 1, errors)
    rises: Array = errors > np.maximum.accumulate(largest)[bins]
    return rises


def _turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether ``b`` is on or below the line from ``a`` to ``c``, so that it is no corner of the upper hull."""
    # Slopes are compared, since products of large or small numbers of float64 overflow or vanish.
    return (c[1] - a[1]) / (c[0] - a[0]) >= (b[1] - a[1]) / (b[0] - a[0])


def _error(actual: Array, truth: Array) -> Array:
    """Return absolute differences, 0 where either array is not finite."""
    finite = np.isfinite(actual) & np.isfinite(truth)
    with np.errstate(invalid="ignore", over="ignore"):
        error: Array = np.where(finite, np.abs(actual - truth), 0.0)
    return error


def _apart(one: Array, other: Array) -> Array:
    """Return how far integers are apart: exactly, as float64 does not tell 2**63 - 1 from 2**63 - 2."""
    if one.dtype.kind not in "iu" or one.dtype != other.dtype:
        return _error(one.astype(np.float64), other.astype(np.float64))
    wide = np.int64 if one.dtype.kind == "i" else np.uint64
    low, high = (pick(one, other).astype(wide).astype(np.uint64) for pick in (np.minimum, np.maximum))
    apart: Array = (high - low).astype(np.float64)  # modulo 2**64, which the difference is below
    return apart


def _settled(own_error: Array, unit: float) -> Array:
    """Return whether PyTorch's error on each row is near its usual one, broadcast along the last axis.

    The usual error is the lower quartile, so PyTorch may be lost on up to three quarters of the rows.
    """
    if own_error.ndim < 2 or own_error.shape[-1] < _NARROW or not own_error.size:
        return np.ones((), bool)
    rows = own_error.max(axis=-1, keepdims=True)
    settled: Array = rows <= max(_LOST * float(np.quantile(rows, 0.25, method="lower")), 2 * unit)
    return settled


def _deviation(actual: Array, truth: Array, error: Array, unit: float, least: float = 0.0) -> Deviation:
    """Measure errors. ``least`` stands for the norm of a truth that is zero."""
    finite = np.isfinite(actual) & np.isfinite(truth)
    have, want = np.where(finite, actual, 0.0).ravel(), np.where(finite, truth, 0.0).ravel()
    largest = float(error.max(initial=0.0))
    relative = ratio(_norm(error.ravel()), _norm(want) or least)
    return Deviation(
        max_abs=largest,
        relative_l2=relative,
        ulps=largest / unit,
        snr_db=-20 * math.log10(relative) if 0 < relative < math.inf else (math.inf if relative == 0 else -math.inf),
        cosine=_cosine(have, want),
        nan=int(np.count_nonzero(np.isnan(actual))),
        inf=int(np.count_nonzero(np.isinf(actual))),
        worst_index=_index(error),
    )


def relative_l2(actual: Array, truth: Array, least: float = 0.0) -> float:
    """Return the L2 norm of the difference over that of the truth, both of one shape and finite.

    ``least`` stands for the norm of a truth that is zero.
    """
    wide = truth.astype(np.float64)
    return ratio(_norm(actual.astype(np.float64) - wide), _norm(wide) or least)


def _norm(array: Array) -> float:
    """Return the L2 norm, scaled so that squares neither overflow nor underflow."""
    largest = float(np.abs(array).max(initial=0.0))
    return largest * float(np.linalg.norm(array / largest)) if largest else 0.0


def _cosine(a: Array, b: Array) -> float:
    norms = _norm(a), _norm(b)
    if not all(norms):
        return 1.0 if norms[0] == norms[1] else 0.0
    return float(np.clip(np.dot(a / norms[0], b / norms[1]), -1.0, 1.0))


def _index(array: Array) -> tuple[int, ...]:
    """Return the index of the largest element, or of the first that is true."""
    return tuple(int(i) for i in np.unravel_index(int(array.argmax()), array.shape)) if array.size else ()


def _same_kind(a: Array, b: Array) -> Array:
    same: Array = (np.isnan(a) & np.isnan(b)) | (np.isinf(a) & (a == b))
    return same
