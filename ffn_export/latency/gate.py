"""The latency gate: a quality gate on the ratio of a model's time over PyTorch's."""

from __future__ import annotations

from collections.abc import Collection

from ffn_export.core.checked_numbers import is_positive, written
from ffn_export.errors import UsageError
from ffn_export.latency.result import LatencyResult


def check_ratio(max_ratio: float) -> None:
    """Check that the largest allowed ratio is a finite number above 0.

    Nothing passes a ratio of 0, and everything passes NaN.

    Raises:
        UsageError: If it is not.
    """
    if not is_positive(max_ratio):
        raise UsageError(f"a largest ratio of {written(max_ratio)} is no gate: take a finite number above 0")


def not_timed(result: LatencyResult, asked: Collection[str]) -> str | None:
    """Return why a runtime that was asked for was timed at no sizes, or None if all were timed.

    If none was asked for, any runtime besides the baseline is enough.
    """
    timed = {timing.runtime for m in result.measurements for timing in m.timings if not timing.default}
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
    """Return a line for each failure of the latency gate.

    The gate fails on

    1. a ratio whose whole confidence interval is above ``max_ratio``,
    2. an inconclusive ratio, which counts as not measured,
    3. sizes at which a judged runtime was not timed,
    4. a timing without any ratio.

    Ratios with copies are not judged: they measure the way to the device as much as the model.

    Args:
        result: The timing.
        max_ratio: Largest allowed ratio over PyTorch; None allows any.
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
