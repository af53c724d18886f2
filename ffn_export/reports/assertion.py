"""Assertion message of a failed verification: the verdict, each runtime's worst case, the first failures."""

from __future__ import annotations

from collections.abc import Iterator

from ffn_export.core.plain_text import visible, without_commands
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.overview import runtime_rows

MOST_FAILURES = 5


def assertion_text(result: ParityResult, replay: str) -> str:
    """Return the assertion message of a failed verification."""
    outcome = "passed" if result.passed else "failed"
    allowed = f", {result.allowance}" if result.allowance else ""
    more = len(result.failures) - MOST_FAILURES
    lines = [
        f"parity of {result.model} against {result.against} {outcome}{allowed}",
        *(f"  {line}" for line in _runtimes(result)),
        *([f"  unavailable here: {', '.join(result.unavailable)}"] if result.unavailable else []),
        *(f"  {check.name}: {check.words}" for check in result.all_checks if check.verdict != "passed"),
        *(["first failures:"] if more > 0 else ["failures:"]),
        *(f"  {failure}" for failure in result.failures[:MOST_FAILURES]),
        *([f"  … and {more} more"] if more > 0 else []),
        f"replay: {replay}",
    ]
    return without_commands("\n".join(map(visible, lines)))


def _runtimes(result: ParityResult) -> Iterator[str]:
    for row in runtime_rows(result):
        said = ", ".join(f"{count} {status}" for status, count in row.counts.items() if count)
        if row.factor:
            own = f"PyTorch's own {row.own}"
            error = f"error {row.error} units in the last place, {row.factor} times what is allowed ({own})"
        else:
            error = row.error
        yield f"{row.runtime}: {said}" + (f"; worst is {row.case}: {error}" if error else "")
