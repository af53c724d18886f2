"""The latency gate: how much longer than PyTorch a model may take."""

from __future__ import annotations

import math
from collections.abc import Collection

from ffn_export.errors import UsageError
from ffn_export.latency.result import LatencyResult


def check_ratio(max_ratio: float) -> None:
    """Refuse a gate that nothing passes or, being NaN, that everything does.

    Raises:
        UsageError: If it is not a finite number above 0.
    """
    if not 0 < max_ratio < math.inf:
        raise UsageError(f"a largest ratio of {max_ratio:g} is no gate: take a finite number above 0")


def not_timed(result: LatencyResult, asked: Collection[str] = ()) -> str | None:
    """Return why the model itself was timed at no sizes, or a runtime that was asked for was not; None where all were.

    Args:
        result: The timing.
        asked: Names of the runtimes that were asked for; none means any.
    """
    timed = {timing.runtime for measurement in result.measurements for timing in measurement.timings}
    timed |= {ratio.runtime for measurement in result.measurements for ratio in measurement.ratios}
    if timed.issuperset(asked) if asked else timed - {result.baseline}:
        return None
    reasons = (
        f"{where}: {reason}"
        for where, reason in result.unavailable.items()
        if not asked or where.partition(" at ")[0] in set(asked) - timed
    )
    return "; ".join(reasons) or "no runtime was asked"


def latency_failures(result: LatencyResult, max_ratio: float | None) -> tuple[str, ...]:
    """Return a line for each measurement that is slower than allowed, beyond its confidence interval.

    Times with copies are shown and not judged: they are as much those of the way to the device as of the model.
    Where nothing was compared, or not all sizes, there is a line too: a gate that nobody asked has not been passed. An
    inconclusive ratio is one that was not measured.
    """
    if max_ratio is None:
        return ()
    ratios = [(m, ratio) for m in result.measurements for ratio in m.ratios if not ratio.copies]
    if not ratios:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in result.unavailable.items())
        return (f"nothing was timed beside PyTorch ({reasons or 'no other runtime was asked'})",)
    judged = {ratio.runtime for _, ratio in ratios} | {result.baseline}
    left_out = [
        f"{where} was not timed: {reason}"
        for where, reason in result.unavailable.items()
        if where.partition(" at ")[0] in judged
    ]
    return (
        *left_out,
        *(
            f"{ratio.runtime} takes {ratio.value:.2f} x {ratio.baseline} at {m.label}, allowed {max_ratio:g}"
            for m, ratio in ratios
            if ratio.low > max_ratio and ratio.verdict != "inconclusive"
        ),
        *(
            f"{ratio.runtime} at {m.label} was not measured, its ratio is inconclusive: {ratio.doubt}; measure again "
            "when nothing else runs"
            for m, ratio in ratios
            if ratio.verdict == "inconclusive"
        ),
    )
