"""The warning about a busy host of a virtual machine, for every report."""

from __future__ import annotations

from collections.abc import Iterable

from ffn_export.latency.host import STOLEN
from ffn_export.latency.result import LatencyResult
from ffn_export.tuning.result import TuningResult


def stolen_words(result: LatencyResult | TuningResult) -> str:
    """Return the processor time that the host took during a timing, in one line; empty if little or not counted."""
    if isinstance(result, LatencyResult):
        shares = [(measurement.label, measurement.stolen) for measurement in result.measurements]
    else:
        pairs = [*(pair for trial in result.trials for pair in trial.pairs), *result.held_out]
        shares = [(pair.label, pair.stolen) for pair in pairs]
    return _words((label, share) for label, share in shares if share is not None)


def _words(shares: Iterable[tuple[str, float]]) -> str:
    most: dict[str, float] = {}
    for label, share in shares:
        most[label] = max(share, most.get(label, 0.0))
    busy = [f"{share:.0%} at {label}" for label, share in most.items() if share > STOLEN]
    if not busy:
        return ""
    return f"the host gave of the processors' time to others {', '.join(busy)}: times there say little, measure again"
