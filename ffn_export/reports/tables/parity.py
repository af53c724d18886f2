"""The verdict of a verification, one row for each thing that was checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ffn_export.parity import verdict
from ffn_export.parity.measures import OutputMetrics, PropertyMetrics
from ffn_export.parity.result import CaseResult, CaseStatus, ParityResult
from ffn_export.parity.tolerances import Tolerances
from ffn_export.reports.tables.environment import environment_line
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, add_row, new_table

MOST_LINES = 10

_STATUSES: tuple[CaseStatus, ...] = ("passed", "warned", "failed", "skipped")
_CASES = tuple(f"{status}\n(cases)" for status in _STATUSES)
_ERRORS = ("worst\nerror\n(ulp)", "allowed\n(ulp)", "error over\nallowed\n(factor)", "PyTorch's\nown\n(ulp)")
_BY_WEIGHT: tuple[CaseStatus, ...] = ("failed", "warned", "passed", "skipped")
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
        _legend(result.tolerances),
        environment_line(result.environment),
    )


def _headline(result: ParityResult) -> Text:
    outcome = Text("passed", GOOD) if result.passed else Text("FAILED", BAD)
    warned = Text(f", {len(result.warnings)} warned" if result.warnings else "", UNSURE)
    return Text.assemble(f"parity of {result.model} against {result.against}: ", outcome, warned)


def _legend(tolerances: Tolerances) -> Text:
    if tolerances.relative_l2 is not None:
        return Text(f"declared budget: a relative L2 error of {tolerances.relative_l2:g}", QUIET)
    if tolerances.closeness:
        tests = (f"{name}: atol {test.atol:g}, rtol {test.rtol:g}" for name, test in tolerances.closeness.items())
        return Text(f"declared, in place of units in the last place: {'; '.join(tests)}", QUIET)
    return Text(
        "ulp: units in the last place at the output's own scale; "
        f"allowed: {tolerances.baseline_factor:g} times PyTorch's own error, at least {tolerances.floor_ulps:g}; "
        f"on ill-conditioned rows also {tolerances.conditioning_factor:g} times what rounding the inputs changes",
        QUIET,
    )


def _runtimes(result: ParityResult) -> Table:
    """Return one row a runtime; its worst error is the nearest to, or furthest over, what is allowed."""
    table = new_table("runtime", "verdict", *_CASES, *_ERRORS, "worst case", numbers=(*_CASES, *_ERRORS))
    for runtime in dict.fromkeys(case.runtime for case in result.cases):
        cases = [case for case in result.cases if case.runtime == runtime]
        counts = Counter(case.status(result.tolerances) for case in cases)
        worst = next(status for status in _BY_WEIGHT if counts[status])
        numbers = [str(counts[status]) for status in _STATUSES]
        add_row(table, runtime, _styled(worst), *numbers, *_worst_cells(cases, result.tolerances))
    return table


def _worst_cells(cases: Sequence[CaseResult], tolerances: Tolerances) -> tuple[str, str, str, str, str]:
    """Return error, allowed error, their factor, PyTorch's own error, and the name of the worst case.

    Raising is worse than any error; a runtime without any comparison has a reason in place of a case.
    """
    raised = next((case.case for case in cases if case.error is not None), None)
    if raised is not None:
        return "raised", "", "", "", raised
    measured = [(case, output) for case in cases if case.skipped is None for output in case.outputs]
    if not measured:
        return "", "", "", "", next((case.skipped for case in cases if case.skipped is not None), "")
    case, worst = max(measured, key=lambda pair: _severity(pair[0], pair[1], tolerances))
    if worst.problem is not None:
        return "not comparable", "", "", "", case.case
    error = "NaN or infinite" if worst.unexpected else _ulps(worst.actual.ulps)
    factor = "" if worst.unexpected else _ulps(verdict.factor(worst, tolerances))
    allowed = "" if tolerances.declares(worst.output) else _ulps(verdict.allowed(worst, tolerances))
    return error, allowed, factor, _ulps(worst.baseline.ulps), case.case


def _severity(case: CaseResult, output: OutputMetrics, tolerances: Tolerances) -> tuple[bool, float]:
    """Order outputs by how bad they are: failures first, then by the share of what is allowed."""
    failed = verdict.output_failure(output, tolerances, excused=bool(case.imprecise_operators)) is not None
    factor = verdict.factor(output, tolerances)
    return failed, factor if math.isfinite(factor) else math.inf


def _ulps(ulps: float) -> str:
    if math.isnan(ulps):
        return "NaN"
    return f"{ulps:,.2f}" if ulps < 1e6 else f"{ulps:.2e}"


def _other_checks(result: ParityResult) -> Table:
    """Return one row for interface, weights and each runtime that is not available here."""
    table = new_table("check", "verdict", "found")
    differences = len(result.interface)
    note = f"differences from the spec: {differences}" if differences else "as the spec says"
    add_row(table, "interface", _styled("failed" if differences else "passed"), note)
    differing = sum(verdict.weight_failure(weight, result.tolerances) is not None for weight in result.weights)
    outcome = ("failed" if differing else "passed") if result.weights else "not checked"
    note = f"initializers traced to parameters: {len(result.weights)}, differing: {differing}"
    add_row(table, "weights", _styled(outcome), note)
    for runtime, asked in _properties_by_runtime(result).items():
        broken = [p for p in asked if verdict.property_failure(p, result.tolerances) is not None]
        kinds = len({p.property for p in asked})
        note = f"{runtime}: {kinds} asked of it, {len({p.property for p in broken})} broken"
        add_row(table, "properties", _styled("failed" if broken else "passed"), note)
    for runtime, reason in result.unavailable.items():
        add_row(table, runtime, _styled("unavailable"), reason)
    return table


def _properties_by_runtime(result: ParityResult) -> dict[str, list[PropertyMetrics]]:
    found: dict[str, list[PropertyMetrics]] = {}
    for each in result.properties:
        found.setdefault(each.runtime, []).append(each)
    return found


def _styled(verdict: str) -> Text:
    return Text(verdict, _STYLES[verdict])


def _lines(found: Sequence[str], style: str) -> Iterator[Text]:
    for line in found[:MOST_LINES]:
        yield Text(line, style)
    if len(found) > MOST_LINES:
        yield Text(f"… and {len(found) - MOST_LINES} more", style)
