"""The verdict of a verification, one row for each thing that was checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ffn_export.parity.result import CaseResult, CaseStatus, OutputMetrics, ParityResult
from ffn_export.parity.tolerances import Tolerances, allowed_ulps
from ffn_export.reports.tables.environment import environment_line
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, add_row, new_table

MOST_FAILURES = 10

_CASES = ("passed\n(cases)", "failed\n(cases)", "skipped\n(cases)")
_ERRORS = ("worst\nerror\n(ulp)", "allowed\n(ulp)", "PyTorch's\nown\n(ulp)")
_BY_WEIGHT: tuple[CaseStatus, ...] = ("failed", "passed", "skipped")
_STYLES = {"passed": GOOD, "failed": BAD, "skipped": UNSURE, "unavailable": UNSURE, "not checked": QUIET}


def parity_table(result: ParityResult) -> RenderableType:
    """Return the verdict, a row for each runtime and each other check, and the first failures."""
    return Group(
        _headline(result),
        *((_runtimes(result), Text()) if result.cases else ()),
        _other_checks(result),
        *_failures(result.failures),
        _legend(result.tolerances),
        environment_line(result.environment),
    )


def _headline(result: ParityResult) -> Text:
    verdict = Text("passed", GOOD) if result.passed else Text("FAILED", BAD)
    return Text.assemble(f"parity of {result.model} against {result.against}: ", verdict)


def _legend(tolerances: Tolerances) -> Text:
    return Text(
        "ulp: units in the last place at the output's own scale; "
        f"allowed: {tolerances.baseline_factor:g} times PyTorch's own error, at least {tolerances.floor_ulps:g}",
        QUIET,
    )


def _runtimes(result: ParityResult) -> Table:
    """Return one row a runtime; its worst error is the nearest to, or furthest over, what is allowed."""
    table = new_table("runtime", "verdict", *_CASES, *_ERRORS, "worst case", numbers=(*_CASES, *_ERRORS))
    for runtime in dict.fromkeys(case.runtime for case in result.cases):
        cases = [case for case in result.cases if case.runtime == runtime]
        counts = Counter(case.status(result.tolerances) for case in cases)
        verdict = next(status for status in _BY_WEIGHT if counts[status])
        numbers = [str(counts[status]) for status in ("passed", "failed", "skipped")]
        add_row(table, runtime, _styled(verdict), *numbers, *_worst_cells(cases, result.tolerances))
    return table


def _worst_cells(cases: Sequence[CaseResult], tolerances: Tolerances) -> tuple[str, str, str, str]:
    """Return error, allowed error, PyTorch's own error, and the name of the worst case.

    Raising is worse than any error; a runtime without any comparison has a reason in place of a case.
    """
    raised = next((case.case for case in cases if case.error is not None), None)
    if raised is not None:
        return "raised", "", "", raised
    measured = [(case.case, output) for case in cases if case.skipped is None for output in case.outputs]
    if not measured:
        return "", "", "", next((case.skipped for case in cases if case.skipped is not None), "")
    name, worst = max(measured, key=lambda pair: _severity(pair[1], tolerances))
    if worst.problem is not None:
        return "not comparable", "", "", name
    error = "NaN or infinite" if worst.unexpected else _ulps(worst.ulps)
    return error, _ulps(allowed_ulps(worst.baseline_ulps, tolerances)), _ulps(worst.baseline_ulps), name


def _severity(output: OutputMetrics, tolerances: Tolerances) -> tuple[bool, float]:
    """Order outputs by how bad they are: failures first, then by the share of what is allowed."""
    allowed = allowed_ulps(output.baseline_ulps, tolerances)
    share = output.ulps / allowed if allowed else output.ulps
    return output.failure(tolerances) is not None, share if math.isfinite(share) else math.inf


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
    differing = sum(weight.failure is not None for weight in result.weights)
    verdict = ("failed" if differing else "passed") if result.weights else "not checked"
    note = f"initializers traced to parameters: {len(result.weights)}, differing: {differing}"
    add_row(table, "weights", _styled(verdict), note)
    for runtime, reason in result.unavailable.items():
        add_row(table, runtime, _styled("unavailable"), reason)
    return table


def _styled(verdict: str) -> Text:
    return Text(verdict, _STYLES[verdict])


def _failures(failures: Sequence[str]) -> Iterator[Text]:
    for failure in failures[:MOST_FAILURES]:
        yield Text(failure, BAD)
    if len(failures) > MOST_FAILURES:
        yield Text(f"… and {len(failures) - MOST_FAILURES} more", BAD)
