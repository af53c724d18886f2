"""A failed verification as the text of an assertion: the verdict, each runtime's worst case, the first failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ffn_export.parity import verdict
from ffn_export.parity.measures import OutputMetrics
from ffn_export.parity.result import CaseResult, ParityResult
from ffn_export.parity.tolerances import Tolerances

MOST_FAILURES = 5


def assertion_text(result: ParityResult, replay: str) -> str:
    """Return what to show where a verification that should have passed has failed.

    Args:
        result: The verification.
        replay: The command that runs it again.
    """
    outcome = "passed" if result.passed else "failed"
    more = len(result.failures) - MOST_FAILURES
    lines = [
        f"parity of {result.model} against {result.against} {outcome}",
        *(f"  {line}" for line in _runtimes(result)),
        *([f"  unavailable here: {', '.join(result.unavailable)}"] if result.unavailable else []),
        f"  weights: {_weights(result)}",
        *(["first failures:"] if more > 0 else ["failures:"]),
        *(f"  {failure}" for failure in result.failures[:MOST_FAILURES]),
        *([f"  … and {more} more"] if more > 0 else []),
        f"replay: {replay}",
    ]
    return "\n".join(lines)


def _runtimes(result: ParityResult) -> Iterator[str]:
    for name in dict.fromkeys(case.runtime for case in result.cases):
        cases = [case for case in result.cases if case.runtime == name]
        counts = Counter(case.status(result.tolerances) for case in cases)
        said = ", ".join(f"{count} {status}" for status, count in counts.items())
        yield f"{name}: {said}{_worst(cases, result.tolerances)}"


def _worst(cases: Sequence[CaseResult], tolerances: Tolerances) -> str:
    """Return the case that is furthest over its bound, or nearest to it; one that raised is worse than any error."""
    raised = next((case.case for case in cases if case.error is not None), None)
    if raised is not None:
        return f"; worst is {raised}, which raised"
    measured = [(case, output) for case in cases if case.skipped is None for output in case.outputs]
    if not measured:
        return ""
    case, output = max(measured, key=lambda pair: _severity(pair[1], tolerances))
    return f"; worst is {case.case}: {output.output} {_error(output, tolerances)}"


def _severity(output: OutputMetrics, tolerances: Tolerances) -> tuple[bool, bool, float]:
    """Order outputs: what cannot be compared, NaN and infinities, then by the share of what is allowed."""
    factor = verdict.factor(output, tolerances)
    return output.problem is not None, output.unexpected > 0 or factor != factor, factor  # noqa: PLR0124 - NaN


def _error(output: OutputMetrics, tolerances: Tolerances) -> str:
    if output.problem is not None:
        return "is not comparable"
    if output.unexpected:
        return "is NaN or infinite where it should not be"
    return (
        f"is off by {output.actual.ulps:.3g} units in the last place, "
        f"{verdict.factor(output, tolerances):.3g} times what is allowed (PyTorch's own {output.baseline.ulps:.3g})"
    )


def _weights(result: ParityResult) -> str:
    if not result.weights:
        return "none was traced to a parameter"
    differing = sum(verdict.weight_failure(weight, result.tolerances) is not None for weight in result.weights)
    return f"{len(result.weights)} traced to parameters, {differing} differing"
