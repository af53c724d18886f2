"""The latency gate: how much longer than PyTorch a model may take."""

from __future__ import annotations

from ffn_export.latency.result import LatencyResult


def latency_failures(result: LatencyResult, max_ratio: float | None) -> tuple[str, ...]:
    """Return a line for each measurement that is slower than allowed, beyond its confidence interval.

    Where nothing was compared there is a line too: a gate that nobody asked has not been passed.
    """
    if max_ratio is None:
        return ()
    ratios = [(measurement, ratio) for measurement in result.measurements for ratio in measurement.ratios]
    if not ratios:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in result.unavailable.items())
        return (f"nothing was timed beside PyTorch ({reasons or 'no other runtime was asked'})",)
    return tuple(
        f"{ratio.runtime} takes {ratio.value:.2f} x {ratio.baseline} at {m.label}, allowed {max_ratio:g}"
        for m, ratio in ratios
        if ratio.low > max_ratio
    )
