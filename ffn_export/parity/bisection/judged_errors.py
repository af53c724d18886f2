"""Arrays -> judged errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ffn_export.core.drawing import float_info
from ffn_export.core.types import Array
from ffn_export.parity.bisection.result import Error
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.measures import OutputMetrics
from ffn_export.parity.judging.metrics import compare
from ffn_export.parity.judging.tolerances import Tolerances

# A mask is added as the lowest number of the dtype. At that scale a unit in the last place is larger than any
# score, so elements above this share of the largest number are compared on their own.
HUGE = 1 / 16


def own_error(
    name: str,
    actual: Array,
    truth: Array,
    baseline: Array,
    tolerances: Tolerances,
    conditioning: float = 0.0,
    *,
    excused: bool = False,
) -> Error:
    """Judge a value that a part computed.

    Args:
        name: Name of the value.
        actual: What the part computed.
        truth: The reference's in float64, or integers.
        baseline: The reference's in the working dtype: it says which dtype and shape are right.
        tolerances: What is allowed.
        conditioning: How far one rounding of what the part was given moves the truth; 0 allows nothing for it.
        excused: Allow all that is explained by an operator that is known to be less accurate.
    """
    found = []
    for indices, have, want, own in _groups(actual, truth, baseline):
        metrics = compare(name, have, want, own, conditioning)
        if metrics.problem is not None:
            return Error(problem=metrics.problem, factor=math.inf)
        error = _error(metrics, tolerances, excused=excused)
        index = _first(have, want, metrics)
        if indices is not None and index:
            index = tuple(int(i) for i in indices[index[0]])
        found.append(replace(error, index=index))
    return max(found, key=lambda error: (error.over, error.factor))


def whole_error(actual: Array, reference: Array) -> Error:
    """Return how far a value of a whole run is from the reference's; nothing is judged but shape, dtype and NaN."""
    found = own_error("", actual, reference.astype(_wide(reference)), reference, Tolerances())
    return replace(found, allowed=math.inf, factor=math.inf if found.problem or found.unexpected else 0.0)


def truth_of(baseline: Array) -> Array:
    """Return what stands for the truth where nothing evaluates it: the reference's own numbers."""
    return baseline.astype(_wide(baseline))


def _error(metrics: OutputMetrics, tolerances: Tolerances, *, excused: bool) -> Error:
    decisive = verdict.worst(metrics, tolerances)
    allowed, factor = decisive.allowed, verdict.factor(metrics, tolerances)
    if excused and not tolerances.declares(metrics.output):
        allowed = verdict.limit(decisive, metrics, tolerances, excused=True)
        factor = metrics.actual.ulps / allowed
    return Error(
        ulps=metrics.actual.ulps,
        allowed=allowed,
        factor=factor,
        baseline_ulps=metrics.baseline.ulps,
        max_abs=metrics.actual.max_abs,
        relative_l2=metrics.actual.relative_l2,
        scale=metrics.scale,
        unexpected=metrics.unexpected,
    )


def _first(actual: Array, truth: Array, metrics: OutputMetrics) -> tuple[int, ...]:
    """Return where the value is wrong: its first NaN, the first integer that differs, or the largest difference."""
    if metrics.unexpected:
        return metrics.unexpected_index
    if actual.dtype.kind in "iub":
        return next((tuple(int(i) for i in index) for index in np.argwhere(actual != truth)), ())
    return metrics.actual.worst_index


def _wide(array: Array) -> np.dtype[np.generic]:
    return array.dtype if array.dtype.kind in "iub" else np.dtype(np.float64)


def _groups(actual: Array, truth: Array, baseline: Array) -> Iterator[tuple[Array | None, Array, Array, Array]]:
    """Yield the elements to compare together: all, or the masked ones apart from the others."""
    comparable = actual.shape == baseline.shape == truth.shape and actual.dtype == baseline.dtype
    if comparable and baseline.dtype.kind not in "iub" and baseline.size:
        with np.errstate(invalid="ignore", over="ignore"):
            huge = np.abs(truth) > HUGE * float(float_info(baseline.dtype).max)
        if huge.any() and not huge.all():
            for group in (~huge, huge):
                yield np.argwhere(group), actual[group], truth[group], baseline[group]
            return
    yield None, actual, truth, baseline
