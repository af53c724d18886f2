"""Console table of a bisection."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ffn_export.parity.bisection.result import Bisection, Part, Verdict
from ffn_export.reports.bisection import further_rows, how, part_rows
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, add_row, new_table

_STYLES: dict[Verdict, str] = {
    "node": BAD, "session": BAD, "initializer": BAD, "accumulated": UNSURE, "outside": UNSURE, "nothing": GOOD,
}  # fmt: skip


def bisection_table(bisection: Bisection) -> RenderableType:
    """Return the verdict in one line, the part named for it, and other parts over their budget."""
    lines: list[RenderableType] = [
        Text.assemble("bisection: ", Text(bisection.reason, _STYLES[bisection.verdict])),
    ]
    if bisection.part is not None:
        lines.append(_part(bisection.part))
    if bisection.further:
        lines += [Text(), _further(bisection.further)]
    if bisection.reduced_nodes is not None:
        lines.append(Text(f"the smallest part that fails has {bisection.reduced_nodes} nodes"))
    return Group(*lines, Text(how(bisection), QUIET))


def _part(part: Part) -> Table:
    table = new_table("guilty", "")
    for what, words in part_rows(part):
        add_row(table, what, words)
    return table


def _further(parts: Sequence[Part]) -> Table:
    table = new_table("also wrong alone", "operator", "PyTorch module", "own error")
    for row in further_rows(parts):
        add_row(table, *row)
    return table
