"""Console table of a tuning result."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ffn_export.reports import tuning
from ffn_export.reports.host import stolen_words
from ffn_export.reports.tables.environment import environment_line
from ffn_export.reports.tables.layout import GOOD, QUIET, UNSURE, add_row, new_table
from ffn_export.tuning.result import TuningResult

_STYLES = {"taken": GOOD, "chosen": GOOD, "refused": UNSURE}


def tuning_table(result: TuningResult) -> RenderableType:
    """Return one row for each move, the lead on held-out rounds, and the choice.

    Each ratio is the time over the best before the move; below 1 is faster.
    """
    numbers = tuning.headers(result)
    table = new_table("tried", *numbers, "outcome", "why", numbers=numbers)
    for *cells, outcome, reason in tuning.rows(result):
        add_row(table, *cells, Text(outcome, _STYLES.get(outcome, "")), reason)
    same, busy = tuning.same_words(result), stolen_words(result)
    return Group(
        Text(f"tuning for {result.target}: {tuning.CAPTION}"),
        table,
        *([Text(same, QUIET)] if same else []),
        *([Text(busy, UNSURE)] if busy else []),
        Text(tuning.chosen_words(result), GOOD if result.leaves_default else ""),
        environment_line(result.environment),
    )
