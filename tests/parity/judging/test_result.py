"""What a result says of cases that were not compared."""

from __future__ import annotations

import pytest

from ffn_export.parity.judging.measures import Deviation, OutputMetrics
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.tolerances import Tolerances, explained_ulps


def case(elements: int = 1, skipped: str | None = None) -> CaseResult:
    output = OutputMetrics("y", "float32", 1.0, Deviation(), Deviation(), elements=elements)
    return CaseResult("ort-cpu", "batch=3", {"batch": 3}, "normal", 0, () if skipped else (output,), skipped=skipped)


def result(*cases: CaseResult) -> ParityResult:
    return ParityResult("m.onnx", "bert-ffn", Tolerances(), cases)


@pytest.mark.parametrize(("elements", "passes"), [(0, False), (1, True), (2, True)])
def test_one_element_is_something_to_judge_and_none_is_not(elements: int, passes: bool) -> None:
    judged = result(case(elements))
    assert judged.passed is passes
    assert (judged.nothing_judged is None) is passes


def test_more_cases_skipped_than_compared_is_a_warning() -> None:
    assert result(case(), case(skipped="no kernel")).warnings == ()
    (warning,) = result(case(), case(skipped="no kernel"), case(skipped="no memory")).warnings
    assert warning == "ort-cpu: 2 of 3 cases were not compared: no kernel"


def test_conditioning_explains_a_multiple_of_itself() -> None:
    assert explained_ulps(3.0, Tolerances()) == 3.0 * Tolerances().explained_factor
