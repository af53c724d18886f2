"""Console tables of a timing and of a tuning."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ffn_export.latency.result import LatencyResult
from ffn_export.reports import latency, tuning
from ffn_export.reports.host import stolen_words
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, Table, environment_line
from ffn_export.tuning.result import TuningResult

_STYLES = {"baseline": QUIET, "tie": UNSURE, "faster": GOOD, "slower": BAD, "inconclusive": UNSURE}


def latency_table(result: LatencyResult, *, verbose: bool = False) -> RenderableType:
    """Return one row for each set of sizes and runtime, and the environment.

    A ratio below 1 is faster than the baseline. If its interval holds 1, the verdict is ``tie``. An ``inconclusive``
    ratio is not shown. A runtime timed with copies has another row.

    Args:
        result: The timing.
        verbose: Whether to show percentiles, throughput and shares of the machine's limits.
    """
    numbers = latency.headers(result, "\n", verbose=verbose)
    table = Table("sizes", "runtime", *numbers, "verdict", numbers=numbers)
    for *cells, verdict in latency.rows(result, verbose=verbose):
        table.add(*cells, Text(verdict, _STYLES.get(verdict, "")))
    missing = [Text(f"{runtime} unavailable: {reason}", UNSURE) for runtime, reason in result.unavailable.items()]
    said = (
        (latency.doubt_words(result), UNSURE),
        (stolen_words(result), UNSURE),
        (latency.default_words(result), QUIET),
        (latency.copies_words(result), QUIET),
        (latency.limit_words(result) if verbose else "", QUIET),
    )
    noted = [Text(words, style) for words, style in said if words]
    return Group(Text(f"latency of {result.model}"), table, *missing, *noted, environment_line(result.environment))


_OUTCOMES = {"taken": GOOD, "chosen": GOOD, "refused": UNSURE}


def tuning_table(result: TuningResult) -> RenderableType:
    """Return one row for each move, the lead on held-out rounds, and the choice.

    Each ratio is the time over the best before the move; below 1 is faster.
    """
    numbers = tuning.headers(result)
    table = Table("tried", *numbers, "outcome", "why", numbers=numbers)
    for *cells, outcome, reason in tuning.rows(result):
        table.add(*cells, Text(outcome, _OUTCOMES.get(outcome, "")), reason)
    same, busy = tuning.same_words(result), stolen_words(result)
    return Group(
        Text(f"tuning for {result.target}: {tuning.CAPTION}"),
        table,
        *([Text(same, QUIET)] if same else []),
        *([Text(busy, UNSURE)] if busy else []),
        Text(tuning.chosen_words(result), GOOD if result.leaves_default else ""),
        environment_line(result.environment),
    )
