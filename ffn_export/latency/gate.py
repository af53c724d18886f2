"""The latency gate: how much longer than PyTorch a model may take."""

from __future__ import annotations

from ffn_export.latency.result import LatencyResult


def latency_failures(result: LatencyResult, max_ratio: float | None) -> tuple[str, ...]:
    """Return a line for each measurement that is slower than allowed, beyond its confidence interval.

    Times with copies are shown and not judged: they are as much those of the way to the device as of the model.
    Where nothing was compared, or not all sizes, there is a line too: a gate that nobody asked has not been passed.
    """
    if max_ratio is None:
        return ()
    ratios = [(m, ratio) for m in result.measurements for ratio in m.ratios if not ratio.copies]
    if not ratios:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in result.unavailable.items())
        return (f"nothing was timed beside PyTorch ({reasons or 'no other runtime was asked'})",)
    judged = {ratio.runtime for _, ratio in ratios} | {result.baseline}
    not_timed = [
        f"{where} was not timed: {reason}"
        for where, reason in result.unavailable.items()
        if where.partition(" at ")[0] in judged
    ]
    return (
        *not_timed,
        *(
            f"{ratio.runtime} takes {ratio.value:.2f} x {ratio.baseline} at {m.label}, allowed {max_ratio:g}"
            for m, ratio in ratios
            if ratio.low > max_ratio
        ),
    )
