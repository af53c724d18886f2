"""The warning about a busy host of a virtual machine, for every report."""

from __future__ import annotations

from collections.abc import Iterable

from ffn_export.latency.host import STOLEN
from ffn_export.latency.result import LatencyResult, Measurement
from ffn_export.tuning.result import Pair, TuningResult


def stolen_words(result: LatencyResult | TuningResult) -> str:
    """Return the processor time that the host took during a timing, in one line; empty if little or not counted."""
    timed: Iterable[Measurement | Pair]
    if isinstance(result, LatencyResult):
        timed = result.measurements
    else:
        timed = (*(pair for trial in result.trials for pair in trial.pairs), *result.held_out)
    most: dict[str, float] = {}
    for each in timed:
        most[each.label] = max(each.stolen or 0.0, most.get(each.label, 0.0))
    busy = [f"{share:.0%} at {label}" for label, share in most.items() if share > STOLEN]
    if not busy:
        return ""
    return f"the host gave of the processors' time to others {', '.join(busy)}: times there say little, measure again"
