"""A verification held against an earlier one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ffn_export.core.regression import Comparison
from ffn_export.parity.judging.baseline import compare
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.measures import Deviation, OutputMetrics, PropertyMetrics, WeightMetrics
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.tolerances import Closeness, Tolerances
from ffn_export.runtimes.environment import Environment

HERE = Environment({"onnxruntime": "1.30.0"}, "a processor", "Linux x86_64", 2)
WEIGHT = WeightMetrics("w", "linear1.weight", 0, 0.0, (0, 0))


def case(
    ulps: float,
    *,
    name: str = "batch=3 normal",
    runtime: str = "ort-cpu",
    conditioning: float = 0.0,
    spread: float = 1.0,
) -> CaseResult:
    output = OutputMetrics(
        "y",
        "float32",
        1.0,
        Deviation(max_abs=ulps * 1e-7, relative_l2=spread * ulps * 1e-7, ulps=ulps),
        Deviation(ulps=1.0),
        conditioning_ulps=conditioning,
        frontier=((ulps * 1e-7, 1.0),),
    )
    return CaseResult(runtime, name, {"batch": 3}, "normal", 0, (output,))


def result(*cases: CaseResult, weight: WeightMetrics = WEIGHT) -> ParityResult:
    return ParityResult("m.onnx", "bert-ffn", Tolerances(), cases, weights=(weight,), environment=HERE)


def lines(old: ParityResult, new: ParityResult) -> tuple[str, ...]:
    return compare(old, new).failures


def test_the_same_result_is_no_regression() -> None:
    found = compare(result(case(2.0)), result(case(2.0)))
    assert found.passed
    assert found.compared == 2  # a case and an initializer
    two = result(case(2.0), case(2.0, name="batch=1 normal"))
    assert compare(two, two).compared == 3
    assert found.notes == ()


def test_a_case_that_fails_now() -> None:
    (line,) = lines(result(case(2.0)), result(case(9.0)))
    assert line == (
        "ort-cpu, batch=3 normal: passed and fails now: "
        "y: error 9 units in the last place at [], allowed 8 (PyTorch's own 1)"
    )
    raised = replace(case(2.0), outputs=(), error="the runtime failed: no kernel")
    assert "fails now: the runtime failed" in lines(result(case(2.0)), result(raised))[0]


def test_what_failed_already_is_no_regression_until_it_gets_worse() -> None:
    assert lines(result(case(9.0)), result(case(10.0))) == ()
    assert lines(result(case(9.0)), result(case(30.0))) != ()


@pytest.mark.parametrize(
    ("old", "new", "grown"),
    [
        (1.0, 5.0, True),
        (3.0, 5.0, False),  # less than twice
        (0.5, 3.0, False),  # less than half of what is allowed
        (2.0, 1.0, False),
    ],
)
def test_an_error_that_grew_beyond_the_margin(old: float, new: float, grown: bool) -> None:
    found = lines(result(case(old)), result(case(new)))
    assert bool(found) is grown
    if grown:
        assert "y: error 5 units in the last place, was 1; 62% of what is allowed" in found[0]


def test_one_element_further_off_is_a_matter_of_the_draw() -> None:
    """The largest of thousands of errors has heavy tails; their L2 norm has not."""
    assert lines(result(case(2.0)), result(case(5.0))) != ()
    assert lines(result(case(2.0)), result(case(5.0, spread=0.5))) == ()


def test_errors_on_other_inputs_are_not_compared() -> None:
    assert lines(result(case(1.0)), result(replace(case(5.0), seed=1))) == ()
    assert lines(result(case(1.0)), result(replace(case(9.0), seed=1))) != ()


def test_an_error_that_is_not_a_number_has_grown() -> None:
    assert lines(result(case(2.0)), result(case(float("nan")))) != ()


def test_on_ill_conditioned_rows_an_error_may_have_been_small_by_luck() -> None:
    assert lines(result(case(0.0, conditioning=4.0)), result(case(5.0, conditioning=4.0))) == ()
    assert lines(result(case(0.0)), result(case(5.0))) != ()


def test_declared_tolerances_are_what_errors_are_measured_by() -> None:
    declared = Tolerances(closeness={"*": Closeness(atol=1e-6)})
    new = result(case(8.0)).rejudged(declared)
    found = compare(result(case(1.0)), new)
    assert found.failures == (
        "ort-cpu, batch=3 normal: y: error 0.8 times what is declared, was 0.1; 80% of what is allowed",
    )
    assert "other tolerances" in found.notes[0]


def test_a_case_that_is_not_judged_now() -> None:
    old = result(case(2.0), case(2.0, name="batch=0 normal"))
    assert lines(old, result(case(2.0))) == (
        "ort-cpu: 1 case of the baseline not judged now, the first is batch=0 normal",
    )
    gone, failed = lines(result(*old.cases[::-1]), result(case(9.0)))
    assert (gone[:16], failed[:24]) == ("ort-cpu: 1 case ", "ort-cpu, batch=3 normal:")
    skipped = replace(case(2.0, name="batch=0 normal"), outputs=(), skipped="refused")
    assert "is skipped now: refused" in lines(old, result(case(2.0), skipped))[0]


def test_a_runtime_that_is_gone_and_one_that_was_not_asked() -> None:
    old = result(case(2.0), case(2.0, runtime="openvino"))
    gone = replace(result(case(2.0)), unavailable={"openvino": "it is not installed"})
    assert lines(old, gone) == ("openvino: judged the baseline and is unavailable now: it is not installed",)
    found = compare(old, result(case(2.0)))
    assert found.passed
    assert found.notes == ("openvino judged the baseline and was not asked now",)


def test_each_runtime_that_misses_cases_is_told() -> None:
    old = result(case(2.0, runtime="openvino"), case(2.0), case(2.0, name="batch=1 normal"))
    new = replace(result(case(2.0)), unavailable={"openvino": "it is not installed"})
    gone, missing = lines(old, new)
    assert gone.startswith("openvino: judged the baseline and is unavailable now")
    assert missing == "ort-cpu: 1 case of the baseline not judged now, the first is batch=1 normal"


def test_a_baseline_of_which_nothing_was_judged_is_not_passed() -> None:
    bare = replace(result(case(2.0, runtime="openvino")), weights=())
    found = compare(bare, result(case(2.0)))
    assert not found.passed
    assert "nothing of the baseline could be compared (openvino judged" in found.failures[0]


def test_weights_go_by_their_parameter() -> None:
    old = result(case(2.0))
    assert lines(old, result(case(2.0), weight=replace(WEIGHT, initializer="val_3"))) == ()
    assert lines(old, result(case(2.0), weight=replace(WEIGHT, parameter="linear1.weight+linear2.weight"))) == ()
    assert "nothing is traced to it now" in lines(old, replace(old, weights=()))[0]
    stale = replace(WEIGHT, differing=3, max_relative=0.001)
    assert (
        "parameter 'linear1.weight': initializer 'w' is not parameter" in lines(old, result(case(2.0), weight=stale))[0]
    )
    # A parameter in two initializers is wrong if one of them is.
    for twice in ((WEIGHT, stale), (stale, WEIGHT)):
        assert len(lines(old, replace(old, weights=twice))) == 1
        assert lines(replace(old, weights=twice), old) == ()
    assert lines(replace(old, weights=(stale,)), replace(old, weights=(stale,))) == ()
    # One that is gone does not end the comparison of the others.
    other = replace(WEIGHT, initializer="v", parameter="linear2.weight")
    both = replace(old, weights=(WEIGHT, other))
    gone, failed = lines(both, replace(old, weights=(replace(other, differing=3, max_relative=0.001),)))
    assert gone.startswith("parameter 'linear1.weight'")
    assert failed.startswith("parameter 'linear2.weight'")


def test_interface_and_properties() -> None:
    holds = PropertyMetrics("ort-cpu", "the batch does not matter", "y", ulps=1.0, baseline_ulps=1.0)
    old = replace(result(case(2.0)), properties=(holds,))
    assert "held and does not now" in lines(old, replace(old, properties=(replace(holds, ulps=99.0),)))[0]
    assert "tested in the baseline and is not now" in lines(old, replace(old, properties=()))[0]
    assert lines(old, old) == ()
    broken = replace(old, properties=(replace(holds, ulps=99.0),))
    # A property of a runtime that was not asked now does not end the comparison of the others.
    elsewhere = replace(holds, runtime="openvino")
    more = replace(result(case(2.0), case(2.0, runtime="openvino")), properties=(elsewhere, holds))
    assert ["held and does not now" in line for line in lines(more, broken)] == [True]
    assert lines(broken, broken) == ()
    found = CheckResult.of("interface", "as the spec says", ("input 'x' is float16",))
    assert lines(old, replace(old, checks=(found,))) == ("interface: input 'x' is float16",)
    assert lines(replace(old, checks=(found,)), replace(old, checks=(found,))) == ()
    silent = CheckResult("debugging", "failed", "a node prints")
    assert lines(old, replace(old, checks=(silent,))) == ("debugging: a node prints",)


def test_what_else_is_different_is_noted() -> None:
    new = replace(
        result(replace(case(2.0), seed=7), case(1.0, name="batch=1 normal")),
        against="gpt2-ffn",
        environment=replace(HERE, versions={"onnxruntime": "1.31.1"}, threads=4),
    )
    assert compare(result(case(2.0)), new).notes == (
        "the baseline was verified against bert-ffn, this against gpt2-ffn",
        "the inputs of the baseline were drawn from another seed: verdicts are compared, errors are not",
        "ort-cpu: 1 case not in the baseline",
        "threads 2 -> 4",
        "onnxruntime 1.30.0 -> 1.31.1",
    )


def test_a_comparison_is_plain_data() -> None:
    found = compare(result(case(2.0)), result(case(9.0)))
    data = json.loads(json.dumps(found.to_dict()))
    assert data["passed"] is False
    assert data["regressions"][0]["kind"] == "failure"
    assert Comparison.from_dict(data) == found
