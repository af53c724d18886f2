"""A verification as table rows and sentences, for every report: runtimes, other checks, and bounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ffn_export.core.words import counted
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.measures import OutputMetrics
from ffn_export.parity.judging.result import CaseResult, CaseStatus, ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes.environment import Environment

Verdict = CaseStatus | Literal["unavailable", "not checked"]

ERRORS = ("error (ulp)", "allowed (ulp)", "factor", "PyTorch's own (ulp)")
"""Titles of the columns of :func:`error_cells`."""

STATUSES: tuple[CaseStatus, ...] = ("passed", "warned", "failed", "skipped")
_BY_WEIGHT: tuple[CaseStatus, ...] = ("failed", "warned", "passed", "skipped")


@dataclass(frozen=True)
class RuntimeRow:
    """A runtime over all its cases, with the numbers of its worst case: a failed one first, then by factor.

    Attributes:
        runtime: Name of the runtime.
        verdict: Worst status of a case.
        counts: Number of cases of each status.
        error: Error in ulps, or words if it has no number.
        allowed: Bound in ulps; empty if it has no number.
        factor: Error over the bound.
        own: PyTorch's error in ulps.
        case: Name of the worst case, or why no case was compared.
    """

    runtime: str
    verdict: CaseStatus
    counts: Mapping[CaseStatus, int]
    error: str = ""
    allowed: str = ""
    factor: str = ""
    own: str = ""
    case: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """All of it as the cells of a table, with a count for each status."""
        counts = (str(self.counts[status]) for status in STATUSES)
        return self.runtime, self.verdict, *counts, self.error, self.allowed, self.factor, self.own, self.case


class CheckRow(NamedTuple):
    """A check that runs no case, or a runtime that is not available here."""

    name: str
    verdict: Verdict
    found: str


def runtime_rows(result: ParityResult) -> list[RuntimeRow]:
    """Return one row for each runtime."""
    rows = []
    for runtime in dict.fromkeys(case.runtime for case in result.cases):
        cases = [case for case in result.cases if case.runtime == runtime]
        counts = Counter(case.status(result.tolerances) for case in cases)
        worst = next(status for status in _BY_WEIGHT if counts[status])
        counted = {status: counts[status] for status in STATUSES}
        rows.append(RuntimeRow(runtime, worst, counted, *_worst(cases, result.tolerances)))
    return rows


def check_rows(result: ParityResult) -> Iterator[CheckRow]:
    """Yield a row for each check, and for each unavailable runtime."""
    for check in result.all_checks:
        yield CheckRow(check.name, check.verdict, check.words)
    for runtime, reason in result.unavailable.items():
        yield CheckRow(runtime, "unavailable", reason)


def worst_output(case: CaseResult, tolerances: Tolerances) -> OutputMetrics | None:
    """Return the worst output of a case, which decides it; None if none was compared."""
    return max(case.outputs, key=lambda output: _severity(case, output, tolerances), default=None)


def error_cells(output: OutputMetrics, tolerances: Tolerances) -> tuple[str, str, str, str]:
    """Return error, bound, factor and PyTorch's error of an output; the bound only if it is declared in ulps."""
    decisive = verdict.worst(output, tolerances)
    error, factor = number(decisive.ulps), number(verdict.factor(output, tolerances))
    if output.unexpected:
        error, factor = "NaN or infinite", ""
    allowed = "" if tolerances.declares(output.output) else number(decisive.allowed)
    return error, allowed, factor, number(decisive.baseline_ulps)


def legend(tolerances: Tolerances) -> str:
    """Return the unit of the numbers and the bounds, in one line."""
    unit = "ulp: units in the last place at the output's own scale"
    named = [f"{name} atol {c.atol:g}, rtol {c.rtol:g}" for name, c in tolerances.closeness.items() if name != "*"]
    others = "other outputs " if named else ""
    everywhere = tolerances.closeness.get("*")
    if everywhere is not None:
        allowed = f"atol {everywhere.atol:g}, rtol {everywhere.rtol:g}"
    elif tolerances.relative_l2 is not None:
        allowed = f"a relative L2 error of {tolerances.budget_words()}"
    else:
        allowed = (
            f"{tolerances.baseline_factor:g} times PyTorch's own error, at least {tolerances.floor_ulps:g}; on "
            f"ill-conditioned rows also {tolerances.conditioning_factor:g} times what rounding the inputs changes"
        )
    return f"{unit}; allowed: {'; '.join([*named, others + allowed])}"


def environment_words(environment: Environment | None) -> str:
    """Return processor, threads, system and versions in one line."""
    if environment is None:
        return "environment not recorded"
    threads = counted(environment.threads, "thread")
    versions = (f"{package} {version}" for package, version in environment.versions.items())
    return ", ".join((environment.processor, threads, environment.system, *versions))


def number(value: float) -> str:
    """Format an error or a factor for reports."""
    if math.isnan(value):
        return "NaN"
    return f"{value:,.2f}" if value < 1e6 else f"{value:.2e}"


def _worst(cases: Sequence[CaseResult], tolerances: Tolerances) -> tuple[str, str, str, str, str]:
    """Return error, bound, factor, PyTorch's error, and the name of the worst case.

    A case that raised is worse than any error. A runtime without a compared case gets the reason instead of a name.
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
    return *error_cells(worst, tolerances.for_case(case.runtime, case.values)), case.case


def _severity(case: CaseResult, output: OutputMetrics, tolerances: Tolerances) -> tuple[bool, float]:
    """Return a sort key: failed outputs are worse than others, then a larger factor is worse."""
    failed = case.output_failure(output, tolerances) is not None
    factor = verdict.factor(output, tolerances.for_case(case.runtime, case.values))
    return failed, factor if math.isfinite(factor) else math.inf


def other_failures(result: ParityResult) -> list[str]:
    """Return the failures that are not those of a case."""
    of_cases = {
        f"{case.runtime}, {case.case}: {failure}"
        for case in result.cases
        if (failure := case.failure(result.tolerances)) is not None
    }
    return [failure for failure in result.failures if failure not in of_cases]


def verdict_sentence(result: ParityResult) -> str:
    """Return the verdict, with the number of runtimes and cases behind it, in a sentence."""
    compared = [case for case in result.cases if case.skipped is None]
    judged = len(result.judged)
    by = f"{counted(judged, 'runtime')} judged {counted(len(compared), 'case')}"
    if result.passed:
        warned = f", {len(result.warnings)} of them warned" if result.warnings else ""
        return f"{by}{warned}; nothing failed."
    failed = sum(case.status(result.tolerances) == "failed" for case in compared)
    others = len(other_failures(result))
    counts = {f"{failed} failed": failed, counted(others, "other failure"): others}
    parts = [words for words, count in counts.items() if count]
    return f"{by}: {', '.join(parts)}." if judged else f"{result.failures[0]}."
