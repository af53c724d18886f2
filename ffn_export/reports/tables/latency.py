"""Console table of a timing."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ffn_export.latency.result import LatencyResult
from ffn_export.reports import latency
from ffn_export.reports.host import stolen_words
from ffn_export.reports.tables.environment import environment_line
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, add_row, new_table

_STYLES = {"baseline": QUIET, "tie": UNSURE, "faster": GOOD, "slower": BAD, "inconclusive": UNSURE}


def latency_table(result: LatencyResult) -> RenderableType:
    """Return one row for each set of sizes and runtime, and the environment.

    A ratio below 1 is faster than the baseline. If its interval holds 1, the verdict is ``tie``. An ``inconclusive``
    ratio is not shown. A runtime timed with copies has another row.
    """
    numbers = latency.headers(result, "\n")
    table = new_table("sizes", "runtime", *numbers, "verdict", numbers=numbers)
    for *cells, verdict in latency.rows(result):
        add_row(table, *cells, Text(verdict, _STYLES.get(verdict, "")))
    missing = [Text(f"{runtime} unavailable: {reason}", UNSURE) for runtime, reason in result.unavailable.items()]
    said = (
        (latency.doubt_words(result), UNSURE),
        (stolen_words(result), UNSURE),
        (latency.copies_words(result), QUIET),
        (latency.limit_words(result), QUIET),
    )
    noted = [Text(words, style) for words, style in said if words]
    return Group(Text(f"latency of {result.model}"), table, *missing, *noted, environment_line(result.environment))
