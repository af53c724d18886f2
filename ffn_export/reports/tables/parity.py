"""Console tables of a verification: a row for each runtime and each other check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.overview import STATUSES, check_rows, legend, runtime_rows
from ffn_export.reports.tables.environment import environment_line
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, add_row, new_table

MOST_LINES = 10

_CASES = tuple(f"{status}\n(cases)" for status in STATUSES)
_ERRORS = ("worst\nerror\n(ulp)", "allowed\n(ulp)", "error over\nallowed\n(factor)", "PyTorch's\nown\n(ulp)")
_STYLES = {
    "passed": GOOD, "warned": UNSURE, "failed": BAD, "skipped": UNSURE, "unavailable": UNSURE, "not checked": QUIET,
}  # fmt: skip


def parity_table(result: ParityResult) -> RenderableType:
    """Return the verdict, a row for each runtime and each other check, and the first failures and warnings."""
    return Group(
        _headline(result),
        *((_runtimes(result), Text()) if result.cases else ()),
        _other_checks(result),
        *_lines(result.failures, BAD),
        *_lines([f"warned: {warning}" for warning in result.warnings], UNSURE),
        *_lines(result.notes, UNSURE),
        Text(legend(result.tolerances), QUIET),
        environment_line(result.environment),
    )


def _headline(result: ParityResult) -> Text:
    outcome = Text("passed", GOOD) if result.passed else Text("FAILED", BAD)
    warned = Text(f", {len(result.warnings)} warned" if result.warnings else "", UNSURE)
    allowed = Text(f", {result.allowance}" if result.allowance else "", BAD)
    return Text.assemble(f"parity of {result.model} against {result.against}: ", outcome, warned, allowed)


def _runtimes(result: ParityResult) -> Table:
    """Return one row for each runtime, with its worst case."""
    table = new_table("runtime", "verdict", *_CASES, *_ERRORS, "worst case", numbers=(*_CASES, *_ERRORS))
    for row in runtime_rows(result):
        counts = [str(row.counts[status]) for status in STATUSES]
        errors = (row.error, row.allowed, row.factor, row.own, row.case)
        add_row(table, row.runtime, _styled(row.verdict), *counts, *errors)
    return table


def _other_checks(result: ParityResult) -> Table:
    """Return one row for each check and each unavailable runtime."""
    table = new_table("check", "verdict", "found")
    for row in check_rows(result):
        add_row(table, row.name, _styled(row.verdict), row.found)
    return table


def _styled(verdict: str) -> Text:
    return Text(verdict, _STYLES[verdict])


def _lines(found: Sequence[str], style: str) -> Iterator[Text]:
    for line in found[:MOST_LINES]:
        yield Text(line, style)
    if len(found) > MOST_LINES:
        yield Text(f"… and {len(found) - MOST_LINES} more", style)
