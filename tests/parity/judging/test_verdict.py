"""Lines of a failure, and the limits that decide it."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import is_dataclass, replace

import numpy as np
import pytest

from ffn_export.parity import judging
from ffn_export.parity.cases.sizes.report import Sizes, SizeUse
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.derived_checks import derived_checks
from ffn_export.parity.judging.imprecise_operators import imprecise_operators
from ffn_export.parity.judging.measures import (
    Deviation,
    OutputMetrics,
    PropertyMetrics,
    UntracedConstant,
    WeightMetrics,
)
from ffn_export.parity.judging.metrics import compare
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.runtime_quirks import DROPS_NAN, FLUSHES_DENORMALS, ORDERS_NAN, SPREADS_INFINITY
from ffn_export.parity.judging.tolerances import Tolerances, budget_of, may_differ
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.registry import get_runtime
from tests.fusion.graphs import model


@pytest.mark.parametrize(
    ("dtype", "smallest"),
    [("float32", 2.0**-126), ("bfloat16", 2.0**-126), ("float16", 2.0**-14), ("float64", 2.0**-1022)],
)
def test_a_flushed_denormal_grows_by_a_thousand_at_most(dtype: str, smallest: float) -> None:
    for times, is_excused in ((1024, True), (1025, False)):
        flushed = OutputMetrics("y", dtype, 1.0, Deviation(max_abs=times * smallest, ulps=1e6))
        assert (verdict.output_failure(flushed, Tolerances(), caveats=[FLUSHES_DENORMALS]) is None) == is_excused


def test_an_imprecise_operator_excuses_where_that_is_asked_for() -> None:
    off = OutputMetrics("y", "float32", 1.0, Deviation(max_abs=1e-6, ulps=15.0))
    assert verdict.output_failure(off, Tolerances(), excused=True) is None
    assert verdict.output_failure(off, Tolerances()) is not None


@pytest.mark.parametrize(
    ("metrics", "caveats", "differs"),
    [
        (OutputMetrics("y"), [], True),
        (OutputMetrics("y", problem="no such output"), [ORDERS_NAN], False),
        (OutputMetrics("y", unexpected=1), [DROPS_NAN], False),
        (OutputMetrics("y", unexpected=1), [ORDERS_NAN], True),
        (OutputMetrics("y", unexpected=1), [SPREADS_INFINITY], True),
        (OutputMetrics("y", dropped=1), [SPREADS_INFINITY], False),
        (OutputMetrics("y", dropped=1), [], False),
        (OutputMetrics("y", dropped=1), [DROPS_NAN], True),
        (OutputMetrics("y", dropped=1), [ORDERS_NAN], True),
    ],
)
def test_outputs_that_differ_in_size_alone(metrics: OutputMetrics, caveats: list[str], differs: bool) -> None:
    assert verdict.differs_in_size(metrics, caveats) == differs


@pytest.mark.parametrize(("error", "limit", "factor"), [(15.0, 10.0, 1.5), (1.0, 0.0, np.inf), (0.0, 0.0, 0.0)])
def test_a_factor_is_the_error_by_its_bound(error: float, limit: float, factor: float) -> None:
    assert verdict.Error(error, 1.0, limit, ()).factor == factor
    off = OutputMetrics("y", "float32", 1.0, Deviation(relative_l2=error))
    assert verdict.factor(off, Tolerances(relative_l2=limit)) == factor


@pytest.mark.parametrize(
    ("differing", "elements", "budget", "allowed"),
    [(1, 1, 0.1, 1), (2, 15, 0.02, 3), (4, 15, 0.02, 3), (51, 100, 0.3, 50), (1, 1000, 1e-6, 1), (2, 1000, 1e-6, 1)],
)
def test_a_budget_lets_some_integers_differ(differing: int, elements: int, budget: float, allowed: int) -> None:
    # Their distance means nothing: the next id is as wrong as any other.
    off = Deviation(relative_l2=1e-9, ulps=1024.0 * differing)
    metrics = OutputMetrics("ids", "int64", 9.0, off, elements=elements)
    failure = verdict.output_failure(metrics, Tolerances(relative_l2=budget))
    if differing <= allowed:
        assert failure is None
    else:
        words = f"the declared budget of {budget:g} allows {allowed}"
        assert failure == f"ids: {differing} of {elements} elements differ, {words}"


@pytest.mark.parametrize(
    ("differing", "budget"), [(0, 0.0), (1, 0.0), (2, 2e-4), (300, 0.03), (500, 0.05), (501, np.inf)]
)
def test_integers_that_differ_need_a_budget(differing: int, budget: float) -> None:
    assert budget_of(differing, 1000) == pytest.approx(budget)
    assert (differing <= may_differ(1000, budget)) == (budget < np.inf)


@pytest.mark.parametrize("budget", [0.01, 0.03, 0.1])
def test_noise_within_a_budget_changes_a_few_times_its_share_of_largest_logits(budget: float) -> None:
    draw = np.random.default_rng(0)
    logits, noise = draw.standard_normal((2, 2000, 1000), dtype=np.float32)
    before, after = logits.argmax(axis=1), (logits + np.float32(budget) * noise).argmax(axis=1)
    factor = verdict.factor(compare("ids", after, before, before), Tolerances(relative_l2=budget))
    assert 0.1 < factor < 0.4
    others = compare("ids", np.roll(before, 1), before, before)
    assert verdict.output_failure(others, Tolerances(relative_l2=budget)) is not None


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "'c0' f[6,9] matches no parameter, and no constant holds parameter 'p0' f[9,6]: "),
        (
            2,
            "'c0' f[6,9], 'c1' f[6,9] match no parameter, and no constant holds parameters 'p0' f[9,6], 'p1' f[9,6]: ",
        ),
    ],
)
def test_foreign_weights_are_named(number: int, words: str) -> None:
    untraced = [UntracedConstant(f"c{n}", "f[6,9]") for n in range(number)]
    unheld = [UntracedConstant(f"p{n}", "f[9,6]") for n in range(number)]
    said = verdict.foreign_weights(untraced, [*unheld, UntracedConstant("other", "f[3]")])
    assert said is not None
    assert said.startswith(words)
    assert verdict.foreign_weights(untraced, [UntracedConstant("other", "f[3]")]) is None


@pytest.mark.parametrize(("number", "more"), [(3, ""), (5, " and 2 more")])
def test_three_constants_are_listed(number: int, more: str) -> None:
    constants = [UntracedConstant(f"c{n}", "f[3]", "fc.bias" * (n == 1)) for n in range(number)]
    assert verdict.listed(constants) == "'c0' f[3], 'c1' f[3] (resembles 'fc.bias'), 'c2' f[3]" + more


ONE = (SizeUse("n", "Less", "s < 9"),)
TWO = (*ONE, SizeUse("m", "Less", "s < 5"))


@pytest.mark.parametrize(
    ("sizes", "outcome", "words"),
    [
        (Sizes(), "passed", "proven to shape data only"),
        (Sizes(left_out=("seq=3", "seq=4")), "passed", "proven to shape data only; left out: 2 sizes, as seq=3"),
        (Sizes(unknown="a Scan"), "not checked", "a Scan"),
        (Sizes(unknown="a Scan", left_out=("seq=3",)), "not checked", "a Scan; left out: 1 sizes, as seq=3"),
        (Sizes(ONE), "passed", "numbers or conditions: s < 9 at n (Less); met on both sides"),
        (Sizes(TWO), "passed", "numbers or conditions: s < 9 at n (Less), and 1 more places; met on both sides"),
        (
            Sizes(ONE, left_out=("seq=9",)),
            "passed",
            "numbers or conditions: s < 9 at n (Less); met on both sides; left out: 1 sizes, as seq=9",
        ),
        (
            Sizes(ONE, left_out=("seq=9",), asked=1),
            "warned",
            "numbers or conditions: s < 9 at n (Less); met on both sides, but for 1 sizes; left out: 1 sizes, as seq=9",
        ),
    ],
)
def test_what_is_said_of_sizes(sizes: Sizes, outcome: str, words: str) -> None:
    result = ParityResult("m.onnx", "bert-ffn", Tolerances(), (), sizes=sizes)
    (check,) = (each for each in derived_checks(result) if each.name == "sizes")
    assert (check.verdict, check.words) == (outcome, words)


def test_a_budget_holds_for_properties_that_are_not_exact() -> None:
    off = PropertyMetrics("ort-cpu", "the batch does not matter", "y", ulps=99.0, relative_l2=0.01)
    assert verdict.property_failure(off, Tolerances(relative_l2=0.02)) is None
    failure = str(verdict.property_failure(off, Tolerances(relative_l2=0.001)))
    assert failure.startswith("the batch does not matter: y: results differ by 99 units")
    assert failure.endswith("allowed 16")
    missing = PropertyMetrics("ort-cpu", "the batch does not matter", problem="it raised")
    assert verdict.property_failure(missing, Tolerances()) == "the batch does not matter: it raised"
    exact = replace(off, exact=True)
    assert "bits should be the same" in str(verdict.property_failure(exact, Tolerances(relative_l2=0.02)))


def test_a_budget_holds_for_weights() -> None:
    off = WeightMetrics("w", "fc.weight", 3, 0.1, (0, 1), relative_l2=0.01)
    assert verdict.weight_failure(off, Tolerances(relative_l2=0.02)) is None
    assert verdict.weight_failure(off, Tolerances(relative_l2=0.005)) is not None
    assert verdict.weight_failure(off, Tolerances()) is not None


def test_axes_of_size_1_and_their_order_tell_no_constant_from_a_parameter() -> None:
    assert UntracedConstant("c", "float32[64,1,32,100]").sizes == ("100", "32", "64")


def test_operators_are_imprecise_in_a_runtime_with_their_kernels() -> None:
    of = model("t = com.microsoft.SkipLayerNormalization(x, x, g) y = Relu(t)", "float[8] g = {1,1,1,1,1,1,1,1}")
    found = {name: imprecise_operators(of.graph.all_nodes(), get_runtime(name)) for name in ("ort-cpu", "reference")}
    assert found == {"ort-cpu": ("com.microsoft::SkipLayerNormalization",), "reference": ()}


def test_a_runtime_that_is_a_kind_of_another_has_its_kernels() -> None:
    class Plain(OrtCpu):
        name = "ort-plain"

    of = model("t = com.microsoft.SkipLayerNormalization(x, x, g) y = Relu(t)", "float[8] g = {1,1,1,1,1,1,1,1}")
    assert imprecise_operators(of.graph.all_nodes(), Plain()) == ("com.microsoft::SkipLayerNormalization",)


@pytest.mark.parametrize(("findings", "words"), [((), "fine"), (("a",), "a"), (("a", "b"), "a (and 1 more)")])
def test_a_check_fails_by_its_findings(findings: tuple[str, ...], words: str) -> None:
    check = CheckResult.of("interface", "fine", findings, ("a note",))
    assert check == CheckResult("interface", "failed" if findings else "passed", words, findings, ("a note",))


def test_measurements_and_verdicts_do_not_change() -> None:
    names = [each.name for each in pkgutil.iter_modules(judging.__path__, f"{judging.__name__}.")]
    classes = {
        each for name in names for each in vars(importlib.import_module(name)).values() if isinstance(each, type)
    }
    # A record that is not frozen has no hash. FailingInputs counts what it wrote.
    assert {each.__name__ for each in classes if is_dataclass(each) and each.__hash__ is None} == {"FailingInputs"}


def test_a_record_without_numbers_is_exact() -> None:
    assert OutputMetrics("y").to_dict() == {
        **{"output": "y", "dtype": "", "scale": 0.0, "problem": None, "elements": None, "inner_units": 1.0},
        **{"actual": Deviation().to_dict(), "baseline": Deviation().to_dict(), "conditioning_ulps": 0.0},
        **{"unexpected": 0, "unexpected_index": (), "dropped": 0, "frontier": (), "caveats": ()},
        **{"settled_ulps": 0.0, "settled_baseline_ulps": 0.0, "settled_index": ()},
    }
    weight = WeightMetrics("w", "p", 0, 0.0, ())
    assert (weight.how, weight.relative_l2) == ("as it is", 0.0)
    assert PropertyMetrics("ort-cpu", "the batch does not matter").to_dict() == {
        **{"runtime": "ort-cpu", "property": "the batch does not matter", "output": "", "problem": None},
        **{
            "ulps": 0.0,
            "relative_l2": 0.0,
            "baseline_ulps": 0.0,
            "worst_index": (),
            "exact": False,
            "inner_units": 1.0,
        },
    }
