"""What a result says of cases that were not compared, or whose errors are explained."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.measures import Deviation, OutputMetrics, UntracedConstant
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.runtime_quirks import EMPTY_TENSORS, MEANING, ORDERS_NAN, SUMS_IN_ORDER
from ffn_export.parity.judging.tolerances import Closeness, Tolerances, explained_ulps


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


def test_a_model_that_only_the_evaluator_computed_is_a_warning() -> None:
    evaluated = result(replace(case(), runtime="reference"))
    assert evaluated.warnings == ()  # nothing else was asked for
    (warning,) = replace(evaluated, unavailable={"ort-cpu": "it lacks a kernel"}).warnings
    assert warning.startswith("no runtime ran the model, ")
    assert warning.endswith(": ort-cpu: it lacks a kernel")
    assert replace(result(case()), unavailable={"ort-cuda": "no GPU"}).warnings == ()


def test_conditioning_explains_a_multiple_of_itself() -> None:
    assert explained_ulps(3.0, Tolerances()) == 3.0 * Tolerances().explained_factor


@pytest.mark.parametrize(
    ("check", "failures"),
    [
        (CheckResult("own", "failed", "a node prints"), ("a node prints",)),
        (CheckResult("own", "failed", "a (and 1 more)", ("a", "b")), ("a", "b")),
        (CheckResult("own", "warned", "a node prints"), ()),
    ],
)
def test_a_failed_check_fails_the_verification_with_findings_or_without(
    check: CheckResult, failures: tuple[str, ...]
) -> None:
    judged = replace(result(case()), checks=(check,))
    assert (judged.failures, judged.passed) == (failures, not failures)


def test_why_nothing_was_judged() -> None:
    assert result().nothing_judged == "no runtime could judge the model (none was asked)"
    unavailable = replace(result(), unavailable={"ort-cpu": "no kernel", "ort-cuda": "no GPU"})
    assert unavailable.failures == ("no runtime could judge the model (ort-cpu: no kernel; ort-cuda: no GPU)",)
    assert result(case(skipped="refused")).nothing_judged == "all 1 cases were skipped: refused"
    assert "as batch=3: refused: give inputs" in str(result(case(0), case(skipped="refused")).nothing_judged)
    assert (result(case()).nothing_judged, result(case()).judged) == (None, ("ort-cpu",))


def off(ulps: float, **outcome: object) -> CaseResult:
    """A case that is off by that, with a relative error of a hundredth."""
    output = OutputMetrics("y", "float32", 1.0, Deviation(ulps * 1e-6, 0.01, ulps), elements=1, settled_ulps=ulps)
    return replace(case(), outputs=(output,), **outcome)  # type: ignore[arg-type]


def test_foreign_weights_explain_a_failure_and_are_a_warning_without_one() -> None:
    foreign = {"untraced": (UntracedConstant("w", "f[6,9]"),), "unheld": (UntracedConstant("p", "f[9,6]"),)}
    passed, failed = (replace(result(off(ulps)), **foreign) for ulps in (1.0, 99.0))  # type: ignore[arg-type]
    assert (passed.failures, [line[:22] for line in passed.warnings]) == ((), ["'w' f[6,9] matches no "])
    assert ([line[:22] for line in failed.failures], failed.warnings) == (
        ["'w' f[6,9] matches no ", "ort-cpu, batch=3: y: e"],
        (),
    )


def test_a_failure_or_a_skipped_case_is_no_warning() -> None:
    assert off(20.0, caveats=(SUMS_IN_ORDER,)).warning(Tolerances()) is not None
    failed = off(99.0, caveats=(SUMS_IN_ORDER,))
    assert (failed.status(Tolerances()), failed.warning(Tolerances())) == ("failed", None)
    skipped = replace(case(skipped="no kernel"), caveats=(SUMS_IN_ORDER,))
    assert (skipped.status(Tolerances()), skipped.warning(Tolerances())) == ("skipped", None)


def test_a_warning_tells_the_error_and_its_reason() -> None:
    explained = off(16.0, caveats=(SUMS_IN_ORDER,))
    assert (explained.status(Tolerances()), off(16.0).status(Tolerances())) == ("warned", "failed")
    assert str(explained.warning(Tolerances())).endswith(
        f": 2.00 times what is allowed; ort-cpu {MEANING[SUMS_IN_ORDER]}"
    )
    assert off(4.0, caveats=(SUMS_IN_ORDER,)).status(Tolerances()) == "passed"
    # A NaN elsewhere is explained without a factor.
    moved = off(4.0, caveats=(ORDERS_NAN,))
    moved = replace(moved, outputs=(replace(moved.outputs[0], unexpected=1, unexpected_index=(0,)),))
    assert str(moved.warning(Tolerances())).endswith(f"first at [0]; ort-cpu {MEANING[ORDERS_NAN]}")


def test_a_budget_is_for_ordinary_values() -> None:
    budget = Tolerances(relative_l2=0.001)
    assert (off(99.0).status(budget), off(99.0, values="large").status(budget)) == ("failed", "warned")
    warning = str(off(99.0, values="large").warning(budget))
    assert warning.endswith("10.00 times what is allowed; large values are extreme, and a budget is for ordinary ones")
    assert off(99.0, values="large").status(Tolerances()) == "failed"


def test_outputs_of_zeros_do_not_tell_whether_zeros_would_pass() -> None:
    zeros, ones = (replace(case(), outputs=(OutputMetrics("y", "float32", scale),)) for scale in (0.0, 1.0))
    tolerances = Tolerances(closeness={"*": Closeness(atol=1e-3)})
    assert replace(result(zeros, zeros, ones), tolerances=tolerances).allowance == ""


def test_an_error_is_explained_by_empty_tensors_only() -> None:
    raised = replace(case(), outputs=(), error="the runtime failed")
    assert (raised.status(Tolerances()), raised.failure(Tolerances())) == ("failed", "the runtime failed")
    assert replace(raised, caveats=(EMPTY_TENSORS,)).status(Tolerances()) == "warned"
    assert replace(raised, skipped="refused").status(Tolerances()) == "skipped"
    assert off(99.0, caveats=(EMPTY_TENSORS,)).failure(Tolerances()) is None


def test_a_result_and_its_report_load_no_large_library() -> None:
    code = "import sys, ffn_export.reports.markdown, ffn_export.parity.judging.result; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"torch", "onnx", "onnx_ir", "onnxruntime"} & set(loaded) == set()
