from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from ffn_export.parity.judging.measures import Deviation, OutputMetrics
from ffn_export.parity.judging.metrics import compare, frontier, unit_in_the_last_place
from ffn_export.parity.judging.runtime_quirks import (
    DROPS_NAN,
    FLUSHES_DENORMALS,
    ORDERS_NAN,
    SORTS_NAN,
    SPREADS_INFINITY,
    SUMS_IN_ORDER,
    TRANSFORMS_NAN,
    of_operators,
    of_runtime,
    on_values,
)
from ffn_export.parity.judging.tolerances import Closeness, Tolerances, allowed_ulps
from ffn_export.parity.judging.verdict import output_failure
from tests.fusion.graphs import model

ORACLE = np.array([[1.0, -4.0], [2.0, 0.5]])
BASELINE = ORACLE.astype(np.float32)


def test_error_is_counted_in_units_of_the_outputs_own_scale() -> None:
    actual = BASELINE.copy()
    actual[1, 1] += np.float32(3 * np.spacing(np.float32(4.0)))
    metrics = compare("y", actual, ORACLE, BASELINE)
    assert metrics.actual.ulps == pytest.approx(3.0)
    assert metrics.actual.worst_index == (1, 1)
    assert metrics.scale == 4.0
    assert metrics.baseline.ulps == 0.0
    assert output_failure(metrics, Tolerances()) is None


def test_the_floor_and_pytorchs_own_error_bound_the_error() -> None:
    unit = np.spacing(np.float32(4.0))
    nine_off = compare("y", (ORACLE + 9 * unit).astype(np.float32), ORACLE, BASELINE)
    assert "allowed 8" in str(output_failure(nine_off, Tolerances()))
    own_three = compare("y", (ORACLE + 9 * unit).astype(np.float32), ORACLE, (ORACLE + 3 * unit).astype(np.float32))
    assert output_failure(own_three, Tolerances()) is None
    assert allowed_ulps(3.0, Tolerances()) == 12.0


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_non_finite_value_fails_where_the_oracle_is_finite(wrong: float) -> None:
    actual = BASELINE.copy()
    actual[0, 0] = wrong
    metrics = compare("y", actual, ORACLE, BASELINE)
    assert (metrics.actual.nan + metrics.actual.inf, metrics.unexpected, metrics.unexpected_index) == (1, 1, (0, 0))
    assert "NaN or infinite" in str(output_failure(metrics, Tolerances()))


def test_nan_everywhere_never_passes() -> None:
    metrics = compare("y", np.full_like(BASELINE, np.nan), ORACLE, BASELINE)
    assert output_failure(metrics, Tolerances(baseline_factor=1e9, floor_ulps=1e9)) is not None


def test_a_finite_value_where_the_oracle_is_nan_fails() -> None:
    oracle = ORACLE.copy()
    oracle[0, 0] = np.nan
    assert output_failure(compare("y", BASELINE, oracle, oracle.astype(np.float32)), Tolerances()) is not None


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_the_same_non_finite_value_is_right(special: float) -> None:
    oracle = ORACLE.copy()
    oracle[0, 0] = special
    assert (
        output_failure(compare("y", oracle.astype(np.float32), oracle, oracle.astype(np.float32)), Tolerances()) is None
    )


def test_infinity_of_the_other_sign_is_wrong() -> None:
    oracle = ORACLE.copy()
    oracle[0, 0] = np.inf
    actual = oracle.astype(np.float32)
    actual[0, 0] = -np.inf
    assert output_failure(compare("y", actual, oracle, oracle.astype(np.float32)), Tolerances()) is not None


def test_pytorchs_own_nan_excuses_a_runtime_that_has_it_too() -> None:
    # torch's float32 gelu(+inf) is NaN while the oracle has inf.
    oracle = np.array([np.inf, 1.0])
    baseline = np.array([np.nan, 1.0], np.float32)
    assert output_failure(compare("y", baseline.copy(), oracle, baseline), Tolerances()) is None
    assert output_failure(compare("y", oracle.astype(np.float32), oracle, baseline), Tolerances()) is None


def test_missing_output_other_shape_and_other_dtype_are_problems() -> None:
    assert compare("y", None, ORACLE, BASELINE).problem == "the runtime has no such output"
    assert "shape [2], expected [2, 2]" in str(compare("y", BASELINE[0], ORACLE, BASELINE).problem)
    assert "dtype float64" in str(compare("y", ORACLE, ORACLE, BASELINE).problem)


def test_an_empty_output_passes() -> None:
    empty = np.zeros((0, 4), np.float32)
    metrics = compare("y", empty, empty.astype(np.float64), empty)
    assert output_failure(metrics, Tolerances()) is None
    assert metrics == OutputMetrics("y", "float32", elements=0)


def test_integers_must_be_equal() -> None:
    oracle = np.array([1, 2, 3])
    assert output_failure(compare("y", oracle, oracle, oracle), Tolerances()) is None
    assert output_failure(compare("y", oracle + np.array([0, 1, 0]), oracle, oracle), Tolerances()) is not None
    large = oracle + 2**60  # which float64 does not tell apart
    assert output_failure(compare("y", large + np.array([0, 1, 0]), large, large), Tolerances()) is not None


@pytest.mark.parametrize("dtype", [object, np.str_])
def test_strings_must_be_equal(dtype: Any) -> None:
    labels = np.array([["cat", "dog"], ["", "bird"]]).astype(dtype)
    same = compare("label", labels.copy(), labels, labels)
    assert same.dtype == str(labels.dtype)
    assert output_failure(same, Tolerances()) is None
    assert output_failure(compare("label", labels[::-1], labels, labels), Tolerances()) is not None
    assert compare("label", labels[:1], labels, labels).problem == "shape [1, 2], expected [2, 2]"


def test_an_integer_that_pytorch_has_flipped_excuses_itself_and_few_others() -> None:
    """Such as the index of the largest of two equal logits; by how much they differ says nothing."""
    oracle = np.arange(64).reshape(4, 16)
    pytorch = oracle.copy()
    pytorch[0, 0] = 20_000
    two = oracle.copy()
    two[1, :2] = 7_000
    for right in (oracle, pytorch, two):
        assert output_failure(compare("ids", right, oracle, pytorch), Tolerances()) is None
    failure = output_failure(compare("ids", oracle[::-1].copy(), oracle, pytorch), Tolerances())
    assert failure == (
        "ids: 64 elements are neither the oracle's nor PyTorch's, first at [0, 0], allowed 4 (PyTorch's own 1)"
    )
    flags, flipped = np.zeros(64, bool), np.eye(1, 64, dtype=bool)[0]
    assert output_failure(compare("is_end", ~flags, flags, flipped), Tolerances()) is not None


@pytest.mark.parametrize(
    ("dtype", "unit"), [(np.float32, 2.0**-21), (np.float16, 2.0**-8), (ml_dtypes.bfloat16, 2.0**-5)]
)
def test_units_in_the_last_place_at_four(dtype: type, unit: float) -> None:
    assert unit_in_the_last_place(4.0, np.dtype(dtype)) == unit


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_largest_number_has_a_unit_too(dtype: type) -> None:
    largest = ml_dtypes.finfo(dtype).max  # type: ignore[no-untyped-call]
    mask: NDArray[np.bool_] = np.array([0, -largest], dtype)
    exact = mask.astype(np.float64)
    assert np.isfinite(unit_in_the_last_place(float(largest), np.dtype(dtype)))
    wrong = compare("y", np.zeros_like(mask), exact, mask)
    assert output_failure(wrong, Tolerances()) is not None


def test_metrics_say_what_the_error_is_like() -> None:
    actual = (ORACLE * 1.01).astype(np.float32)
    metrics = compare("y", actual, ORACLE, BASELINE)
    assert metrics.actual.relative_l2 == pytest.approx(0.01, rel=1e-4)
    assert metrics.actual.snr_db == pytest.approx(40.0, abs=0.01)
    assert metrics.actual.cosine == pytest.approx(1.0)
    assert compare("y", -BASELINE, ORACLE, BASELINE).actual.cosine == pytest.approx(-1.0)
    assert metrics.baseline.snr_db == np.inf
    actual, oracle = np.array([np.inf, 3.0, 4.05]), np.array([np.inf, 3.0, 4.0])
    assert compare("y", actual, oracle, oracle).actual.relative_l2 == pytest.approx(0.01)


def test_norms_neither_overflow_nor_vanish() -> None:
    for oracle in (np.array([1e300, -1e300]), np.array([1e-300, 1e-300])):
        assert compare("y", oracle * 0.99, oracle, oracle).actual.relative_l2 == pytest.approx(0.01)
        assert compare("y", oracle, oracle, oracle).actual.cosine == pytest.approx(1.0)
        assert compare("y", oracle / 2, oracle, oracle).actual.cosine == pytest.approx(1.0)


def test_an_error_where_the_oracle_is_zero_has_no_relative_size() -> None:
    zeros = np.zeros(3)
    metrics = compare("y", zeros + 1e-3, zeros, zeros)
    assert (metrics.actual.relative_l2, metrics.actual.snr_db, metrics.actual.cosine) == (np.inf, -np.inf, 0.0)
    assert compare("y", np.zeros(4), np.ones(4), np.ones(4)).actual.cosine == 0.0


def test_the_frontier_decides_every_classic_test() -> None:
    rng = np.random.default_rng(0)
    oracle = rng.standard_normal((40, 50)) * 10 ** rng.uniform(-3, 3, (40, 50))
    actual = oracle + rng.standard_normal((40, 50)) * 10 ** rng.uniform(-6, -2, (40, 50))
    points = compare("y", actual, oracle, oracle).frontier
    assert len(points) < 40
    error, size = np.abs(actual - oracle), np.abs(oracle)
    for atol in (1e-9, 1e-4, 1e-2):
        for rtol in (0.0, 1e-6, 1e-3, 1.0):
            expected = float((error / (atol + rtol * size)).max())
            assert Closeness(atol, rtol).factor(points) == pytest.approx(expected)
    assert Closeness(0.0, 1e-3).factor(points) == pytest.approx(float((error / (1e-3 * size)).max()))


def test_the_frontier_holds_the_corners_only() -> None:
    """An element below the line between two others decides nothing, nor does one on it or with a smaller error."""
    size = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert frontier(np.array([5.0, 5.2, 7.0, 9.0, 8.0]), size) == ((5.0, 1.0), (9.0, 4.0))
    assert frontier(np.array([5.0, 9.0, 9.0, 11.0, 10.0]), size) == ((5.0, 1.0), (9.0, 2.0), (11.0, 4.0))
    assert frontier(np.array([5.0, 9.0, 8.9]), np.array([1.0, 2.0, 2.0001])) == ((5.0, 1.0), (9.0, 2.0))
    assert frontier(np.zeros(2), np.ones(2)) == ()


def test_a_classic_tolerance_takes_the_place_of_the_bound() -> None:
    off = compare("y", BASELINE + np.float32(1e-3), ORACLE, BASELINE)
    assert output_failure(off, Tolerances()) is not None
    assert output_failure(off, Tolerances(closeness={"*": Closeness(atol=2e-3)})) is None
    assert output_failure(off, Tolerances(closeness={"y": Closeness(atol=1e-4), "*": Closeness(atol=1.0)})) is not None
    nan = compare("y", np.full_like(BASELINE, np.nan), ORACLE, BASELINE)
    assert output_failure(nan, Tolerances(closeness={"*": Closeness(atol=1e30)})) is not None


def test_a_declared_budget_takes_the_place_of_the_bound() -> None:
    off = compare("y", (ORACLE * 1.004).astype(np.float32), ORACLE, BASELINE)
    assert output_failure(off, Tolerances(relative_l2=0.01)) is None
    assert "the declared budget is 0.001" in str(output_failure(off, Tolerances(relative_l2=0.001)))


def _lost_on_first_row(own: float, elsewhere: float) -> OutputMetrics:
    """Eight rows; PyTorch is off by ``own`` on the first and the runtime by ``elsewhere`` on the last."""
    truth = np.random.default_rng(0).standard_normal((8, 32))
    baseline, actual = truth.astype(np.float32), truth.astype(np.float32)
    baseline[0] += np.float32(own)
    actual[0] += np.float32(own / 2)
    actual[-1, 3] += np.float32(elsewhere)
    return compare("y", actual, truth, baseline)


def test_a_row_that_pytorch_is_lost_on_says_nothing_of_the_others() -> None:
    tolerances = Tolerances()
    assert output_failure(_lost_on_first_row(0.5, 0.0), tolerances) is None
    failure = output_failure(_lost_on_first_row(0.5, 1e-3), tolerances)
    assert failure is not None
    assert "at [7, 3]" in failure


def test_rows_of_about_one_error_are_judged_by_the_largest() -> None:
    metrics = _lost_on_first_row(0.0, 0.0)
    assert metrics.settled_ulps == metrics.actual.ulps
    assert metrics.settled_baseline_ulps == metrics.baseline.ulps
    assert metrics.settled_index == metrics.actual.worst_index


@pytest.mark.parametrize(("units", "is_settled"), [(2, True), (3, False)])
def test_pytorch_is_not_lost_on_a_row_within_two_units(units: int, is_settled: bool) -> None:
    truth = np.linspace(-1.0, 1.0, 8 * 32).reshape(2, 4, 32).astype(np.float32).astype(np.float64)
    own = truth.copy()
    own[0, 1, 3] += units * 2.0**-23
    actual = own.copy()
    actual[0, 1, 5] += 4 * 2.0**-23  # in the same row
    metrics = compare("y", actual.astype(np.float32), truth, own.astype(np.float32))
    assert metrics.settled_ulps == (4 if is_settled else 0)


def test_narrow_rows_are_not_told_apart() -> None:
    truth = np.random.default_rng(0).standard_normal((64, 2))
    baseline = truth.astype(np.float32)
    baseline[0] += np.float32(0.5)
    actual = baseline + np.float32(1e-3)
    assert output_failure(compare("y", actual, truth, baseline), Tolerances()) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_an_element_beyond_the_dtype_hides_no_error_of_others(dtype: type) -> None:
    """The oracle in float64 holds it, PyTorch and the runtime have infinity there."""
    oracle = ORACLE.copy()
    oracle[0, 0] = 1e40
    with np.errstate(over="ignore"):
        own: NDArray[Any] = oracle.astype(dtype)
    wrong = own.copy()
    wrong[1, 1] *= dtype(2)
    assert output_failure(compare("y", own, oracle, own), Tolerances()) is None
    assert "units in the last place at [1, 1]" in str(output_failure(compare("y", wrong, oracle, own), Tolerances()))


@pytest.mark.parametrize(("dtype", "unit"), [("float32", 2.0**104), ("float16", 2.0**5), ("float64", 2.0**971)])
def test_the_unit_of_what_is_beyond_the_dtype_is_that_of_its_largest_number(dtype: str, unit: float) -> None:
    scales = (float(np.finfo(dtype).max), math.inf)
    assert [unit_in_the_last_place(scale, np.dtype(dtype)) for scale in scales] == [unit, unit]


def test_a_dtype_without_infinity_has_no_unit_beyond_its_numbers() -> None:
    assert math.isnan(unit_in_the_last_place(1e9, np.dtype(ml_dtypes.float8_e4m3fn)))


def test_a_known_caveat_of_a_runtime_explains_what_it_says_and_no_more() -> None:
    tolerances = Tolerances()
    unit = np.spacing(np.float32(4.0))
    twenty_off, forty_off = (compare("y", (ORACLE + n * unit).astype(np.float32), ORACLE, BASELINE) for n in (20, 40))
    assert output_failure(twenty_off, tolerances) is not None
    assert output_failure(twenty_off, tolerances, caveats=[SUMS_IN_ORDER]) is None
    assert output_failure(forty_off, tolerances, caveats=[SUMS_IN_ORDER]) is not None

    oracle = ORACLE.copy()
    oracle[0, 0] = np.nan
    dropped = compare("y", BASELINE, oracle, oracle.astype(np.float32))
    assert (dropped.dropped, dropped.unexpected) == (1, 0)
    assert "1 elements are not the NaN or infinity" in str(output_failure(dropped, tolerances))
    assert output_failure(dropped, tolerances, caveats=[DROPS_NAN]) is None
    invented = compare("y", oracle.astype(np.float32), ORACLE, BASELINE)
    assert output_failure(invented, tolerances, caveats=[DROPS_NAN]) is not None

    denormal = np.full(3, 1e-39)
    flushed = compare("y", np.zeros(3, np.float32), denormal, denormal.astype(np.float32))
    assert output_failure(flushed, tolerances) is not None
    assert output_failure(flushed, tolerances, caveats=[FLUSHES_DENORMALS]) is None
    assert output_failure(forty_off, tolerances, caveats=[FLUSHES_DENORMALS]) is not None


def test_caveats_are_of_a_runtime_and_of_values() -> None:
    assert on_values("nan", of_runtime("ort-cpu")) == ()
    assert on_values("normal", of_runtime("openvino")) == (SUMS_IN_ORDER,)
    assert on_values("denormal", of_runtime("tract")) == (SUMS_IN_ORDER, FLUSHES_DENORMALS)
    assert on_values("infinite", of_runtime("tract")) == (SUMS_IN_ORDER, DROPS_NAN)


TO_INTEGERS = {DROPS_NAN, SPREADS_INFINITY}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Sign(x)", {ORDERS_NAN}),
        ("y, places = TopK(x, one)", {SORTS_NAN}),
        ("place = ArgMin<axis = -1>(x) y = Cast<to = 1>(place)", {SORTS_NAN}),
        ("y = CumSum(x, one)", {SUMS_IN_ORDER}),
        ("y = DFT(x, , one)", {TRANSFORMS_NAN}),
        ("y = ReduceMax<keepdims = 1>(x)", {DROPS_NAN}),
        ("z, scale, zero = DynamicQuantizeLinear(x) y = DequantizeLinear(z, scale, zero)", TO_INTEGERS),
        ("y = Relu(x)", set()),
        ("y = com.microsoft.MatMulNBits<K = 8, N = 8, block_size = 16, accuracy_level = 4>(x, q, s)", TO_INTEGERS),
        ("y = com.microsoft.MatMulNBits<K = 8, N = 8, block_size = 16, accuracy_level = 1>(x, q, s)", set()),
        ("y = com.microsoft.MatMulNBits<K = 8, N = 8, block_size = 16>(x, q, s)", set()),
    ],
)
def test_caveats_of_operators(body: str, expected: set[str]) -> None:
    constants = f"int64 one = {{1}}, uint8[8,1,8] q = {{{'0,' * 63}0}}, float[8] s = {{1,1,1,1,1,1,1,1}}"
    of = model(body, constants, outputs="float[] y", domains=["com.microsoft"])
    assert set(of_operators(of.graph)) == expected


@pytest.mark.parametrize("operator", ["ArgMax", "CumSum", "ReduceMax", "Sign"])
def test_integers_are_exact_and_never_nan(operator: str) -> None:
    ids = ir.val("ids", dtype=ir.DataType.INT64, shape=[2, 3])
    assert of_operators([ir.node(operator, [ids])]) == ()


@pytest.mark.parametrize("caveat", [ORDERS_NAN, SPREADS_INFINITY, TRANSFORMS_NAN])
def test_nan_that_is_elsewhere_explains_nothing_else(caveat: str) -> None:
    moved = OutputMetrics("y", "float32", 1.0, unexpected=2, unexpected_index=(0,))
    assert output_failure(moved, Tolerances()) is not None
    assert output_failure(moved, Tolerances(), caveats=[caveat]) is None
    wrong = replace(moved, actual=Deviation(max_abs=1.0, ulps=1e6), settled_ulps=1e6)
    assert output_failure(wrong, Tolerances(), caveats=[caveat]) is not None
    assert on_values("normal", (caveat,)) == ()
    assert on_values("infinite in parts", (caveat,), (caveat,)) == (caveat,)


@pytest.mark.parametrize(
    ("dtype", "right", "wrong"),
    [(np.int64, 2**63 - 1, 2**63 - 2), (np.int64, -(2**63), 1 - 2**63), (np.uint64, 2**64 - 1, 2**64 - 2)],
)
def test_large_integers_are_told_apart_by_the_classic_test_too(dtype: Any, right: int, wrong: int) -> None:
    truth, other = np.array([right, 1], dtype), np.array([wrong, 1], dtype)
    exact = Tolerances(closeness={"*": Closeness(0.0, 0.0)})
    assert output_failure(compare("y", other, truth, truth), exact) is not None
    assert output_failure(compare("y", truth, truth, truth), exact) is None


def test_integers_are_apart_by_more_than_their_dtype_holds() -> None:
    truth, other = np.array([-128, 127], np.int8), np.array([127, 127], np.int8)
    assert compare("y", other, truth, truth).frontier == ((255.0, 128.0),)


@pytest.mark.parametrize("size", [1e200, 1.0, 1e-200])
def test_the_deciding_elements_are_those_of_any_size(size: float) -> None:
    """Products of numbers of float64 overflow, or vanish."""
    found = frontier(np.array([1.0, 1.9, 2.0]) * size, np.array([1.0, 2.0, 3.0]) * size)
    assert [error / size for error, _ in found] == pytest.approx([1.0, 1.9, 2.0])
