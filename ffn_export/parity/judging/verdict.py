"""Verdicts on measurements: whether one passes, its factor, and the reason of a failure in one line."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ffn_export.parity.judging.measures import (
    UNITS_OF_AN_ELEMENT,
    OutputMetrics,
    PropertyMetrics,
    UntracedConstant,
    WeightMetrics,
)
from ffn_export.parity.judging.runtime_quirks import (
    DROPS_NAN,
    FLUSHES_DENORMALS,
    ORDERS_NAN,
    SORTS_NAN,
    SPREADS_INFINITY,
    SUMS_IN_ORDER,
    TRANSFORMS_NAN,
)
from ffn_export.parity.judging.tolerances import Tolerances, allowed_ulps, explained_ulps, may_differ, ratio

# Largest growth of a flushed input in a few layers and a norm with an epsilon of 1e-5, which multiplies it by 316.
_FLUSHED = 1024
_LISTED = 3
_SMALLEST_NORMAL = {"float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-14, "float64": 2.0**-1022}

# Caveats that explain NaN and infinity where the oracle has none, and other elements where it has some.
_INVENT_NAN = frozenset({ORDERS_NAN, SORTS_NAN, SPREADS_INFINITY, TRANSFORMS_NAN})
_LOSE_NAN = frozenset({ORDERS_NAN, SORTS_NAN, DROPS_NAN, TRANSFORMS_NAN})


@dataclass(frozen=True)
class Error:
    """An error in ULP, with PyTorch's own error, the bound, and the index of the error."""

    ulps: float
    baseline_ulps: float
    allowed: float
    index: tuple[int, ...]

    @property
    def factor(self) -> float:
        """The error as a multiple of its bound; infinite for NaN."""
        factor = ratio(self.ulps, self.allowed)
        return math.inf if math.isnan(factor) else factor


def errors(metrics: OutputMetrics, tolerances: Tolerances) -> tuple[Error, Error]:
    """Return the errors judged if no tolerance is declared: over all rows, and over rows where PyTorch is accurate."""
    measured = (
        (metrics.actual.ulps, metrics.baseline.ulps, metrics.actual.worst_index),
        (metrics.settled_ulps, metrics.settled_baseline_ulps, metrics.settled_index),
    )
    whole, settled = (
        Error(ulps, own, allowed_ulps(own, tolerances, metrics.conditioning_ulps, metrics.inner_units), index)
        for ulps, own, index in measured
    )
    return whole, settled


def worst(metrics: OutputMetrics, tolerances: Tolerances) -> Error:
    """Return the one of both :func:`errors` with the larger factor."""
    return max(errors(metrics, tolerances), key=lambda error: error.factor)


def factor(metrics: OutputMetrics, tolerances: Tolerances) -> float:
    """Return the error of an output as a multiple of its bound; above 1 it is too large."""
    closeness = tolerances.closeness_of(metrics.output)
    if closeness is not None:
        return closeness.factor(metrics.frontier)
    if tolerances.relative_l2 is not None and not metrics.is_floating:
        return ratio(_differing(metrics), may_differ(metrics.elements or 0, tolerances.relative_l2))
    if tolerances.relative_l2 is not None:
        return ratio(metrics.actual.relative_l2, tolerances.relative_l2)
    return worst(metrics, tolerances).factor


def _differing(metrics: OutputMetrics) -> float:
    """Return the number of elements of an output of integers that are neither the oracle's nor PyTorch's."""
    return metrics.actual.ulps // UNITS_OF_AN_ELEMENT


def output_failure(
    metrics: OutputMetrics, tolerances: Tolerances, *, excused: bool = False, caveats: Collection[str] = ()
) -> str | None:
    """Return why an output fails, or None.

    Args:
        metrics: Measurements of the output.
        tolerances: Allowed errors.
        excused: Whether to allow errors that an imprecise operator explains.
        caveats: Caveats whose errors are allowed, from :mod:`~ffn_export.parity.judging.runtime_quirks`.
    """
    if metrics.problem is not None:
        return f"{metrics.output}: {metrics.problem}"
    if _invented(metrics, caveats):
        where = f"elements are NaN or infinite in one of runtime and oracle, first at {list(metrics.unexpected_index)}"
        return f"{metrics.output}: {metrics.unexpected} {where}"
    if lost(metrics, caveats):
        return f"{metrics.output}: {metrics.dropped} elements are not the NaN or infinity of oracle and PyTorch"
    # Comparisons are written so that NaN fails.
    if factor(metrics, tolerances) <= 1:
        return None
    at = list(metrics.actual.worst_index)
    closeness = tolerances.closeness_of(metrics.output)
    if closeness is not None:
        times = f"{closeness.factor(metrics.frontier):.3g} times what is allowed"
        declared = f"atol {closeness.atol:g}, rtol {closeness.rtol:g}"
        return f"{metrics.output}: error {metrics.actual.max_abs:.3g} at {at}, {times} ({declared})"
    if tolerances.relative_l2 is not None:
        return f"{metrics.output}: {_over_budget(metrics, tolerances.relative_l2)}"
    is_flushed = FLUSHES_DENORMALS in caveats and metrics.actual.max_abs <= _FLUSHED * _SMALLEST_NORMAL.get(
        metrics.dtype, 0.0
    )
    found = errors(metrics, tolerances)
    limits = [(error, limit(error, metrics, tolerances, excused=excused, caveats=caveats)) for error in found]
    outside = [(error, most) for error, most in limits if not error.ulps <= most]
    if is_flushed or not outside:
        return None
    return _outside(metrics, *max(outside, key=lambda each: each[0].factor))


def _over_budget(metrics: OutputMetrics, budget: float) -> str:
    if metrics.is_floating:
        return f"relative L2 error {metrics.actual.relative_l2:.3g}, the declared budget is {budget:g}"
    differing = f"{_differing(metrics):.0f} of {metrics.elements} elements differ"
    return f"{differing}, the declared budget of {budget:g} allows {may_differ(metrics.elements or 0, budget)}"


def _outside(metrics: OutputMetrics, error: Error, most: float) -> str:
    """Return a line that tells by how much an error exceeds its limit."""
    if not metrics.is_floating:
        wrong, own, allowed = (units // UNITS_OF_AN_ELEMENT for units in (error.ulps, error.baseline_ulps, most))
        return (
            f"{metrics.output}: {wrong:.0f} elements are neither the oracle's nor PyTorch's, first at "
            f"{list(error.index)}, allowed {allowed:.0f} (PyTorch's own {own:.0f})"
        )
    conditioning = f", conditioning {metrics.conditioning_ulps:.3g}" if metrics.conditioning_ulps else ""
    return (
        f"{metrics.output}: error {error.ulps:.3g} units in the last place at {list(error.index)}, "
        f"allowed {most:.3g} (PyTorch's own {error.baseline_ulps:.3g}{conditioning})"
    )


def _invented(metrics: OutputMetrics, caveats: Collection[str]) -> int:
    """Return how many elements are NaN or infinite in one of runtime and oracle, for no reason that a caveat tells."""
    return 0 if _INVENT_NAN & set(caveats) else metrics.unexpected


def lost(metrics: OutputMetrics, caveats: Collection[str] = ()) -> int:
    """Return how many elements should be NaN or infinite and are not, for no reason that a caveat tells."""
    return 0 if _LOSE_NAN & set(caveats) else metrics.dropped


def differs_in_size(metrics: OutputMetrics, caveats: Collection[str]) -> bool:
    """Whether an output can be compared and every NaN and infinity is as expected."""
    return metrics.problem is None and not _invented(metrics, caveats) and not lost(metrics, caveats)


def limit(
    error: Error, metrics: OutputMetrics, tolerances: Tolerances, *, excused: bool, caveats: Collection[str] = ()
) -> float:
    """Return the largest allowed error of an output, including what :func:`output_failure` excuses."""
    if SORTS_NAN in caveats:
        return math.inf
    limits = [error.allowed]
    if SUMS_IN_ORDER in caveats:
        limits.append(error.allowed * tolerances.in_order_factor)
    if excused:
        limits.append(error.allowed * tolerances.imprecise_factor)
        limits.append(explained_ulps(metrics.conditioning_ulps, tolerances))
    return max(limits)


def weight_failure(metrics: WeightMetrics, tolerances: Tolerances) -> str | None:
    """Return why an initializer fails, or None if it equals the parameter or is within the declared budget."""
    budget = tolerances.for_runtime(None).relative_l2
    if not metrics.differing or (budget is not None and metrics.relative_l2 <= budget):
        return None
    return (
        f"initializer {metrics.initializer!r} is not parameter {metrics.parameter!r} ({metrics.how}): "
        f"{metrics.differing} elements differ, by up to {metrics.max_relative:.2g} of its largest, "
        f"at {list(metrics.worst_index)}"
    )


def foreign_weights(untraced: Sequence[UntracedConstant], unheld: Sequence[UntracedConstant]) -> str | None:
    """Return a line on constants that match no parameter and missing parameters of the same sizes, or None.

    A constant may be computed from parameters in an unknown way, so the outputs decide. If they are wrong, foreign
    weights are the likely cause.
    """
    wanted = {each.sizes for each in unheld}
    foreign = [each for each in untraced if each.sizes in wanted]
    if not foreign:
        return None
    missing = [each for each in unheld if each.sizes in {constant.sizes for constant in foreign}]
    held = "no constant holds parameter" + ("s " if len(missing) > 1 else " ")
    return (
        f"{listed(foreign)} {'match' if len(foreign) > 1 else 'matches'} no parameter, and {held}{listed(missing)}: "
        "weights of another seed or checkpoint, or changed beyond recognition"
    )


def listed(constants: Sequence[UntracedConstant]) -> str:
    """Return the names and types of the first few constants, and the number of the rest."""
    words = [
        f"{each.name!r} {each.type}" + (f" (resembles {each.resembles!r})" if each.resembles else "")
        for each in constants[:_LISTED]
    ]
    more = len(constants) - len(words)
    return ", ".join(words) + (f" and {more} more" if more else "")


def property_failure(metrics: PropertyMetrics, tolerances: Tolerances) -> str | None:
    """Return why a property does not hold, or None."""
    tolerances = tolerances.for_runtime(metrics.runtime)
    where = f"{metrics.property}: {metrics.output}" if metrics.output else metrics.property
    if metrics.problem is not None:
        return f"{where}: {metrics.problem}"
    budget = tolerances.relative_l2
    if budget is not None and not metrics.exact and metrics.relative_l2 <= budget:
        return None
    limit = 0.0 if metrics.exact else property_limit(metrics, tolerances)
    if metrics.ulps <= limit:
        return None
    return f"{where}: results differ by {metrics.ulps:.3g} units in the last place at {list(metrics.worst_index)}, " + (
        "the bits should be the same" if metrics.exact else f"allowed {limit:.3g}"
    )


def property_limit(metrics: PropertyMetrics, tolerances: Tolerances) -> float:
    """Return the largest allowed difference of two settings: twice the bound, as each may be off in either sense."""
    return 2 * allowed_ulps(metrics.baseline_ulps, tolerances, inner_units=metrics.inner_units)
