"""Console tables of verifications and bisections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ffn_export.parity.bisection.result import Bisection, Verdict
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.bisection import FURTHER, further_rows, how, part_rows
from ffn_export.reports.overview import STATUSES, check_rows, legend, runtime_rows
from ffn_export.reports.summary import MARKS, Line, Mark
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, Marked, Table, environment_line

MOST_LINES = 10

_CASES = tuple(f"{status}\n(cases)" for status in STATUSES)
_ERRORS = ("worst\nerror\n(ulp)", "allowed\n(ulp)", "error over\nallowed\n(factor)", "PyTorch's\nown\n(ulp)")
_STYLES = {
    "passed": GOOD,
    "warned": UNSURE,
    "failed": BAD,
    "skipped": UNSURE,
    "unavailable": UNSURE,
    "not checked": QUIET,
}


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
    table = Table("runtime", "verdict", *_CASES, *_ERRORS, "worst case", numbers=(*_CASES, *_ERRORS))
    for row in runtime_rows(result):
        runtime, verdict, *numbers = row.cells
        table.add(runtime, _styled(verdict), *numbers)
    return table


def _other_checks(result: ParityResult) -> Table:
    """Return one row for each check and each unavailable runtime."""
    rows = ((row.name, _styled(row.verdict), row.found) for row in check_rows(result))
    return Table("check", "verdict", "found", rows=rows)


def _styled(verdict: str) -> Text:
    return Text(verdict, _STYLES[verdict])


def _lines(found: Sequence[str], style: str) -> Iterator[Text]:
    for line in found[:MOST_LINES]:
        yield Text(line, style)
    if len(found) > MOST_LINES:
        yield Text(f"… and {len(found) - MOST_LINES} more", style)


def summary_lines(lines: Sequence[Line]) -> RenderableType:
    """Return the lines of a summary, each behind its mark; a long one is indented below it."""
    styles: dict[Mark, str] = {"good": GOOD, "bad": BAD, "unsure": UNSURE, "plain": ""}
    return Group(*(Marked(MARKS[line.mark], Text(line.words, styles[line.mark])) for line in lines))


def parity_summary_table(results: Mapping[str, ParityResult | str]) -> Table:
    """Return one row for each model.

    Args:
        results: Name of a model -> its verification, or the reason why it could not be verified.
    """
    numbers = ("cases", "worst error\n(ulp)")
    table = Table("model", "verdict", *numbers, "judged by", "first failure or warning", numbers=numbers)
    for name, result in results.items():
        if isinstance(result, str):
            table.add(name, Text("FAILED", BAD), "0", "", "", result)
            continue
        verdict = _verdict(result)
        judged = [case for case in result.cases if case.skipped is None]
        worst = max((output.actual.ulps for case in judged for output in case.outputs), default=None)
        error = "" if worst is None else f"{worst:,.2f}"
        found = next(iter((*result.failures, *filter(None, [result.allowance]), *result.warnings)), "")
        table.add(name, verdict, str(len(judged)), error, ", ".join(result.judged), found)
    return table


def _verdict(result: ParityResult) -> Text:
    if not result.passed:
        return Text("FAILED", BAD)
    return Text("warned", UNSURE) if result.warnings else Text("passed", GOOD)


_GUILTY: dict[Verdict, str] = {
    "node": BAD,
    "session": BAD,
    "initializer": BAD,
    "accumulated": UNSURE,
    "outside": UNSURE,
    "nothing": GOOD,
}


def bisection_table(bisection: Bisection) -> RenderableType:
    """Return the verdict in one line, the part named for it, and other parts over their budget."""
    lines: list[RenderableType] = [
        Text.assemble("bisection: ", Text(bisection.reason, _GUILTY[bisection.verdict])),
    ]
    if bisection.part is not None:
        lines.append(Table("guilty", "", rows=part_rows(bisection.part)))
    if bisection.further:
        lines += [Text(), Table(*FURTHER, rows=further_rows(bisection.further))]
    if bisection.reduced_nodes is not None:
        lines.append(Text(f"the smallest part that fails has {bisection.reduced_nodes} nodes"))
    return Group(*lines, Text(how(bisection), QUIET))
