"""Console tables of presets and of findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, add_row, new_table

_VERDICTS = {"ok": GOOD, "note": QUIET, "problem": BAD}


def presets_table(rows: Iterable[Sequence[str]]) -> Table:
    """Return one row for each preset: name, inputs, summary, source."""
    table = new_table("preset", "inputs", "what it is", "source")
    for row in rows:
        add_row(table, *row)
    return table


def findings_table(rows: Iterable[tuple[str, str, str]]) -> Table:
    """Return one row for each finding: subject, verdict (``ok``, ``note``, ``problem``), detail."""
    table = new_table("what", "verdict", "detail")
    for subject, verdict, detail in rows:
        add_row(table, subject, Text(verdict, style=_VERDICTS[verdict]), detail)
    return table
