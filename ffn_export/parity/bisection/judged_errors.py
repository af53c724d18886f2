"""Judge the error of one value."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from ffn_export.core.drawing import float_info
from ffn_export.core.types import Array
from ffn_export.parity.bisection.result import Error
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.measures import OutputMetrics
from ffn_export.parity.judging.metrics import compare
from ffn_export.parity.judging.tolerances import Tolerances

# A mask adds the lowest number of the dtype. At that scale one ULP is larger than any score, so elements above this
# share of the largest number are compared separately.
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
    caveats: Collection[str] = (),
) -> Error:
    """Judge a value that a part computed.

    Args:
        name: Name of the value.
        actual: Value computed by the part.
        truth: Value of the reference in float64, or integers.
        baseline: Value of the reference in the working dtype, which defines the expected dtype and shape.
        tolerances: Allowed errors.
        conditioning: Change of the truth under one rounding of the part's inputs; 0 allows nothing for it.
        excused: Whether to allow errors that an imprecise operator explains.
        caveats: Caveats that explain numbers where the truth has NaN or infinity.
    """
    found = []
    for indices, have, want, own in _groups(actual, truth, baseline):
        metrics = compare(name, have, want, own, conditioning)
        if metrics.problem is not None:
            return Error(problem=metrics.problem, factor=math.inf)
        error = _error(metrics, tolerances, verdict.lost(metrics, caveats), excused=excused)
        index = _first(have, want, metrics, own) if error.unexpected else _first_of_size(have, want, metrics)
        if indices is not None and index:
            index = tuple(int(i) for i in indices[index[0]])
        found.append(replace(error, index=index))
    return max(found, key=lambda error: (error.over, error.factor))


def whole_error(actual: Array, reference: Array, caveats: Collection[str] = ()) -> Error:
    """Return the error of a value in a whole run; only shape, dtype, NaN and infinity are judged."""
    found = own_error("", actual, truth_of(reference), reference, Tolerances(), caveats=caveats)
    return replace(found, allowed=math.inf, factor=math.inf if found.problem or found.unexpected else 0.0)


def truth_of(baseline: Array) -> Array:
    """Return the baseline in float64, or as integers, as a substitute for a truth that cannot be evaluated."""
    return baseline if baseline.dtype.kind in "iub" else baseline.astype(np.float64)


def _error(metrics: OutputMetrics, tolerances: Tolerances, lost: int, *, excused: bool) -> Error:
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
        unexpected=metrics.unexpected + lost,
    )


def _first(actual: Array, truth: Array, metrics: OutputMetrics, own: Array) -> tuple[int, ...]:
    """Return the index of the first NaN or infinity that is none in the truth, or the reverse."""
    if metrics.unexpected:
        return metrics.unexpected_index
    have, want, base = (each.astype(np.float64) for each in (actual, truth, own))
    unlike = ~np.isfinite(want) & ~np.isfinite(base)
    for other in (want, base):
        unlike &= ~((have == other) | (np.isnan(have) & np.isnan(other)))
    return next((tuple(int(i) for i in index) for index in np.argwhere(unlike)), ())


def _first_of_size(actual: Array, truth: Array, metrics: OutputMetrics) -> tuple[int, ...]:
    """Return the index of the first wrong integer, or of the largest difference."""
    if actual.dtype.kind in "iub":
        return next((tuple(int(i) for i in index) for index in np.argwhere(actual != truth)), ())
    return metrics.actual.worst_index


def _groups(actual: Array, truth: Array, baseline: Array) -> Iterator[tuple[Array | None, Array, Array, Array]]:
    """Yield groups of elements to compare: all together, or masked ones and others separately."""
    comparable = actual.shape == baseline.shape == truth.shape and actual.dtype == baseline.dtype
    if comparable and baseline.dtype.kind not in "iub" and baseline.size:
        with np.errstate(invalid="ignore", over="ignore"):
            huge = np.abs(truth) > HUGE * float(float_info(baseline.dtype).max)
        if huge.any() and not huge.all():
            for group in (~huge, huge):
                yield np.argwhere(group), actual[group], truth[group], baseline[group]
            return
    yield None, actual, truth, baseline
