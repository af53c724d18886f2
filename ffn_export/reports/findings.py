"""What a verification found, for formats that list problems: one entry for each failed or warned case and check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.reports.formats import Verification

CASE = "case"
RUNTIMES = "runtimes"


@dataclass(frozen=True)
class Finding:
    """A problem.

    Attributes:
        rule: ``case``, ``runtimes``, or the name of a check.
        level: ``error`` fails the verification, ``warning`` does not.
        title: The check, or the runtime and the case.
        message: What is wrong.
    """

    rule: str
    level: Literal["error", "warning"]
    title: str
    message: str


def findings(result: ParityResult) -> Iterator[Finding]:
    """Yield every problem; one is an error if and only if the verification failed."""
    for case in result.cases:
        if case.skipped is None:
            yield from _of_case(case, result)
    for check in result.all_checks:
        if check.verdict == "failed":
            yield Finding(check.name, "error", check.name, "; ".join(check.faults))
        elif check.verdict == "warned":
            yield Finding(check.name, "warning", check.name, check.words)
    if result.nothing_judged is not None:
        yield Finding(RUNTIMES, "error", "no runtime judged the model", result.nothing_judged)


def model_file(verification: Verification) -> str:
    """Return the path of the model, relative to the working directory if it lies there."""
    if verification.path is None:
        return verification.result.model
    path, here = verification.path.absolute(), Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def _of_case(case: CaseResult, result: ParityResult) -> Iterator[Finding]:
    title = f"{case.runtime}, {case.case}"
    failure, warning = case.failure(result.tolerances), case.warning(result.tolerances)
    if failure is not None:
        yield Finding(CASE, "error", title, f"{failure} ({case.hint})" if case.hint else failure)
    elif warning is not None:
        yield Finding(CASE, "warning", title, warning)
