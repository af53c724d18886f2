"""The verdict over what was measured: whether it passes, by how much it does not, and why, in one line."""

from __future__ import annotations

import math
from collections.abc import Collection

from ffn_export.parity.caveats import DROPS_NAN, FLUSHES_DENORMALS, SUMS_IN_ORDER
from ffn_export.parity.measures import OutputMetrics, PropertyMetrics, WeightMetrics
from ffn_export.parity.tolerances import Tolerances, allowed_ulps, explained_ulps

# What a flushed input becomes behind a few layers and a norm with an epsilon of 1e-5, which multiplies it by 316.
_FLUSHED = 1024
_SMALLEST_NORMAL = {"float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-14, "float64": 2.0**-1022}


def allowed(metrics: OutputMetrics, tolerances: Tolerances) -> float:
    """Return the largest error in ulps that passes without a warning, where nothing else is declared."""
    return allowed_ulps(metrics.baseline.ulps, tolerances, metrics.conditioning_ulps)


def factor(metrics: OutputMetrics, tolerances: Tolerances) -> float:
    """Return the error of an output as a multiple of what is allowed: above 1 it is outside."""
    closeness = tolerances.closeness_of(metrics.output)
    if closeness is not None:
        return closeness.factor(metrics.frontier)
    if tolerances.relative_l2 is not None:
        return _ratio(metrics.actual.relative_l2, tolerances.relative_l2)
    return _ratio(metrics.actual.ulps, allowed(metrics, tolerances))


def output_failure(
    metrics: OutputMetrics, tolerances: Tolerances, *, excused: bool = False, caveats: Collection[str] = ()
) -> str | None:
    """Return why an output fails, or None.

    Args:
        metrics: What was measured of it.
        tolerances: What is allowed.
        excused: Also allow what the conditioning explains.
        caveats: Also allow what these explain, of :mod:`~ffn_export.parity.caveats`.
    """
    if metrics.problem is not None:
        return f"{metrics.output}: {metrics.problem}"
    if metrics.unexpected:
        where = f"elements are NaN or infinite in one of runtime and oracle, first at {list(metrics.unexpected_index)}"
        return f"{metrics.output}: {metrics.unexpected} {where}"
    if metrics.dropped and DROPS_NAN not in caveats:
        return f"{metrics.output}: {metrics.dropped} elements are numbers where oracle and PyTorch have NaN or infinity"
    # Comparisons are written so that NaN fails.
    if factor(metrics, tolerances) <= 1:
        return None
    worst = list(metrics.actual.worst_index)
    closeness = tolerances.closeness_of(metrics.output)
    if closeness is not None:
        times = f"{closeness.factor(metrics.frontier):.3g} times what is allowed"
        declared = f"atol {closeness.atol:g}, rtol {closeness.rtol:g}"
        return f"{metrics.output}: error {metrics.actual.max_abs:.3g} at {worst}, {times} ({declared})"
    if tolerances.relative_l2 is not None:
        error = f"relative L2 error {metrics.actual.relative_l2:.3g}"
        return f"{metrics.output}: {error}, the declared budget is {tolerances.relative_l2:g}"
    limit = allowed(metrics, tolerances)
    if SUMS_IN_ORDER in caveats:
        limit *= tolerances.in_order_factor
    if excused:
        limit = max(limit, explained_ulps(metrics.conditioning_ulps, tolerances))
    is_flushed = FLUSHES_DENORMALS in caveats and metrics.actual.max_abs <= _FLUSHED * _SMALLEST_NORMAL.get(
        metrics.dtype, 0.0
    )
    if is_flushed or metrics.actual.ulps <= limit:
        return None
    conditioning = f", conditioning {metrics.conditioning_ulps:.3g}" if metrics.conditioning_ulps else ""
    return (
        f"{metrics.output}: error {metrics.actual.ulps:.3g} units in the last place at {worst}, "
        f"allowed {limit:.3g} (PyTorch's own {metrics.baseline.ulps:.3g}{conditioning})"
    )


def weight_failure(metrics: WeightMetrics, tolerances: Tolerances) -> str | None:
    """Return why an initialiser fails, or None: it must be the parameter, or within the declared budget of it."""
    budget = tolerances.relative_l2
    if not metrics.differing or (budget is not None and metrics.relative_l2 <= budget):
        return None
    return (
        f"initializer {metrics.initializer!r} is not parameter {metrics.parameter!r} ({metrics.how}): "
        f"{metrics.differing} elements differ, by up to {metrics.max_relative:.2g} of its largest, "
        f"at {list(metrics.worst_index)}"
    )


def property_failure(metrics: PropertyMetrics, tolerances: Tolerances) -> str | None:
    """Return why a property does not hold, or None."""
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
    """Return how far two settings may differ that should agree: as far as either may be from the oracle."""
    return allowed_ulps(metrics.baseline_ulps, tolerances)


def _ratio(error: float, limit: float) -> float:
    if limit:
        return error / limit
    return math.inf if error else 0.0
