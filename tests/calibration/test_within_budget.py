"""Products go to 8 bits as far as the budget allows, those worth most first."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.calibration.metrics import parse
from ffn_export.calibration.statistics import batches, real_rows, statistics
from ffn_export.calibration.within_budget import Budget, are_one_input, fit, relative_error
from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.core.types import Array
from ffn_export.errors import UsageError
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import quantize
from ffn_export.reports.sensitivity_plot import sensitivity_plot
from tests.quantization.test_quantize import graph, run

ALL = QuantizationOptions(int8=True, all_products=True)
# Two feed-forwards: the second is a thousandth of the sum.
BODY = (
    "m = MatMul(x, w) h = Relu(m) p = MatMul(h, v) k = Constant <value = float {0.001}> () "
    "n = MatMul(x, table) g = Relu(n) q = MatMul(g, t) r = Mul(q, k) y = Add(p, r)"
)
DRAW = np.random.default_rng(0)
SAMPLES = {"x": DRAW.standard_normal((20, 3, 40)).astype(np.float32)}


@pytest.fixture(autouse=True)
def _no_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ffn_export.calibration.sensitivity.saved", lambda shape, threads: 1e-6 * sum(shape))


def test_all_fit() -> None:
    found = fit(graph(BODY), ALL, SAMPLES, Budget(0.05))
    assert len(found.report.weights) == 4
    assert found.report.error is not None
    assert found.report.error < 0.03
    assert found.report.sensitivities == ()


def test_some_fit_and_the_sensitive_ones_stay() -> None:
    whole = fit(graph(BODY), ALL, SAMPLES, Budget(0.05), always_measure=True).report
    assert all(each.chosen for each in whole.sensitivities)
    assert whole.error is not None
    found = fit(graph(BODY), ALL, SAMPLES, Budget(whole.error / 2)).report
    assert found.error is not None
    assert found.error <= whole.error / 2
    assert 0 < len(found.weights) < 4
    assert any("left in float32" in why for why in (found.kept or {}).values())
    ranked = found.sensitivities
    assert [each.chosen for each in ranked] == sorted((each.chosen for each in ranked), reverse=True)
    assert [each.worth for each in ranked] == sorted((each.worth for each in ranked), reverse=True)
    # The product whose result is multiplied by a thousandth is nearly free.
    assert "q" in ranked[0].products
    plot = sensitivity_plot(found)
    assert plot.count("<circle") == len(ranked) + 1
    assert f"chosen: {sum(each.chosen for each in ranked)} of {len(ranked)} inputs in 8 bits" in plot


def test_nothing_fits() -> None:
    found = fit(graph(BODY), ALL, SAMPLES, Budget(1e-9))
    assert found.report.error is not None
    assert found.report.error > 1e-9
    assert not any(each.chosen for each in found.report.sensitivities)


def test_a_metric_replaces_the_error() -> None:
    found = fit(graph(BODY), ALL, SAMPLES, Budget(1e-9, parse("cosine=0.99")))
    assert found.measured is not None
    assert found.measured.passed
    assert len(found.report.weights) == 4


def test_samples_run_a_few_rows_at_a_time() -> None:
    assert [len(each["x"]) for each in batches(SAMPLES, graph(BODY))] == [8, 8, 4]
    found = statistics(graph(BODY), {"x", "h"}, SAMPLES)
    assert np.allclose(found["x"].largest, np.abs(SAMPLES["x"]).max(axis=(0, 1)))
    assert np.allclose(found["x"].means, SAMPLES["x"].mean(axis=(0, 1)), atol=1e-4)
    assert np.allclose(found["x"].squares, np.square(SAMPLES["x"]).mean(axis=(0, 1)), rtol=1e-4)
    assert found["h"].largest.shape == (48,)


def test_padding_at_the_end_is_cut() -> None:
    mask = np.array([[1, 1, 0, 0], *[[1, 0, 0, 0]] * 7, [1, 1, 1, 0]])
    given = {"input_ids": np.arange(36).reshape(9, 4), "attention_mask": mask}
    inputs = ["input_ids:int64[batch,seq]", "attention_mask:int64[batch,seq]"]
    assert [each["input_ids"].shape for each in batches(given, reading(*inputs))] == [(8, 2), (1, 3)]
    beside = {**given, "x": np.zeros((9, 4, 2))}
    assert len(next(batches(beside, reading(*inputs, "x:float32[batch,seq,2]")))["x"][0]) == 4
    fixed = reading("input_ids:int64[batch,4]", "attention_mask:int64[batch,4]")
    assert [each["input_ids"].shape for each in batches(given, fixed)] == [(8, 4), (1, 4)]


def reading(*inputs: str) -> ir.Model:
    values = [
        ir.Value(
            name=spec.name,
            type=ir.TensorType(ir.DataType.FLOAT),
            shape=ir.Shape([axis if isinstance(axis, int) else axis.name for axis in spec.dims]),
        )
        for spec in parse_inputs(inputs)
    ]
    return ir.Model(ir.Graph(values, [], nodes=[], opset_imports={"": 20}), ir_version=10)


@pytest.mark.parametrize(
    ("inputs", "rows"),
    [
        (["x:float32[16,4]"], [(16,), (16,)]),
        (["x:float32[1,4]"], [(1,)] * 32),
        (["x:float32[16,4]", "y:float32[1,4]"], [(16, 1), (16, 1)]),
        (["x:float32[batch,4]", "y:float32[n]"], [(8, 8)] * 4),
        (["x:float32[batch,seq,4]", "y:float32[seq,seq]"], [(32, 32)]),
        (["x:float32[batch,4]", "y:float32[1,4]"], [(8, 4)] * 4),
        (["x:float32[batch,4]", "y:float32[]"], [(8, 0)] * 4),
        (["x:float32[batch,4]", "y:float32[n,4]"], [(32, 3)]),
        (["x:float32[batch,seq,4]", "y:float32[layers,batch,4]"], [(32, 32)]),
    ],
)
def test_samples_are_cut_along_the_axis_of_the_rows(inputs: list[str], rows: list[tuple[int, ...]]) -> None:
    length = {"y:float32[1,4]": len(rows), "y:float32[n,4]": 3}.get(inputs[-1], 32)
    samples = {"x": np.zeros((32, 4)), "y": np.zeros(() if inputs[-1].endswith("[]") else (length, 4))}
    found = list(batches({spec.name: samples[spec.name] for spec in parse_inputs(inputs)}, reading(*inputs)))
    assert [tuple(array.shape[0] if array.ndim else 0 for array in each.values()) for each in found] == rows


POOLED = "m = MatMul(x, w) h = Relu(m) n = MatMul(h, v) y = ReduceMean <keepdims = 1> (n, first)"
ATTENTION = (
    "q = MatMul(x, w) k = MatMul(x, table) t2 = Transpose <perm = [1, 0]> (k) s = MatMul(q, t2) "
    "p = Softmax (s) n = MatMul(p, k) y = MatMul(n, v)"
)
TOKENS = {"x": SAMPLES["x"].reshape(-1, 40)}


@pytest.mark.parametrize("body", [f"first = Constant <value_ints = [0]> () {POOLED}", ATTENTION])
def test_tokens_of_one_text_are_one_input(body: str) -> None:
    """Cut in parts of 8 tokens, they would be other inputs, with another error."""
    model = graph(body, rows="tokens")
    assert are_one_input(model, TOKENS)
    found = fit(model, ALL, TOKENS, Budget(0.1))
    outputs = [run(each, TOKENS["x"]) for each in (model, found.model)]
    assert found.report.error == pytest.approx(np.linalg.norm(outputs[1] - outputs[0]) / np.linalg.norm(outputs[0]))


def test_rows_that_do_not_see_each_other_are_several_inputs() -> None:
    attention = ATTENTION.replace("[1, 0]", "[0, 2, 1]")
    for body, rows, samples in ((BODY, "tokens", TOKENS), (BODY, "batch,seq", SAMPLES), (attention, "b,seq", SAMPLES)):
        assert not are_one_input(graph(body, rows=rows), samples)
    assert not are_one_input(graph(ATTENTION, rows="tokens"), {"x": TOKENS["x"][:8]})  # they run at once anyway
    assert not are_one_input(graph(ATTENTION, rows="4"), {"x": TOKENS["x"][:16]})  # the model takes no more


def test_padding_is_left_out() -> None:
    mask = np.array([[1, 1, 0], [1, 0, 0]])
    array = np.arange(18.0).reshape(2, 3, 3)
    assert real_rows({"attention_mask": mask}, array).tolist() == [[0, 1, 2], [3, 4, 5], [9, 10, 11]]


def test_without_statistics_nothing_is_smoothed() -> None:
    _, report = quantize(graph(BODY), ALL)
    assert {weight.smoothing for weight in report.weights} == {"not smoothed: not measured on samples or drawn inputs"}


@pytest.mark.parametrize(
    ("after", "error"),
    [
        ([-np.inf, np.nan, 3.0, 4.0], 0.0),
        ([-np.inf, np.nan, 3.0, 4.5], 0.1),
        ([-np.inf, np.nan, 3.0, np.nan], np.inf),
        ([0.0, np.nan, 3.0, 4.0], np.inf),
        ([np.inf, np.nan, 3.0, 4.0], np.inf),
    ],
)
def test_numbers_are_judged_beside_masked_ones(after: list[float], error: float) -> None:
    before = np.array([-np.inf, np.nan, 3.0, 4.0], np.float32)
    same = {"first": np.ones(2, np.float32)}
    assert relative_error({**same, "y": before}, {**same, "y": np.array(after, np.float32)}) == pytest.approx(error)


@pytest.mark.parametrize(("after", "error"), [([0.0, 0.0], 0.0), ([0.0, 1e-3], np.inf)])
def test_an_output_of_zeros_stays_one(after: list[float], error: float) -> None:
    assert relative_error({"y": np.zeros(2, np.float32)}, {"y": np.array(after, np.float32)}) == error


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_another_shape_is_over_every_budget(dtype: Any) -> None:
    rows: Array = np.ones((3, 1), dtype)
    assert relative_error({"y": rows}, {"y": rows}) == 0.0
    assert relative_error({"y": rows}, {"y": rows[:2]}) == np.inf
    assert relative_error({"y": rows}, {"y": rows[:1]}) == np.inf  # not held against each row


def test_an_output_whose_shape_depends_on_numbers_is_over_every_budget() -> None:
    """The places of the numbers above 1: some of them move over it in 8 bits."""
    model = graph(f"{BODY} one = Constant <value = float {{1.0}}> () above = Greater(y, one) places = NonZero(above)")
    places = next(node.outputs[0] for node in model.graph if node.op_type == "NonZero")
    places.type = ir.TensorType(ir.DataType.INT64)
    model.graph.outputs.append(places)
    found = fit(model, ALL, SAMPLES, Budget(0.05), always_measure=True).report
    assert any(each.error == np.inf for each in found.sensitivities)
    assert "nan" not in sensitivity_plot(found)
    kept = fit(model, ALL, SAMPLES, Budget(0.05, parse("top1=0.99")))
    assert kept.measured is not None
    # By the times that were measured, the product before the places comes first, and then nothing passes, or not.
    assert kept.measured.passed or np.isnan(kept.measured.value)


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        (SAMPLES["x"][:0], "no output has an element on the samples, .*: give samples with rows"),
        (np.full((2, 3, 40), np.nan, np.float32), "no output has a finite number on the samples"),
    ],
)
@pytest.mark.parametrize("options", [ALL, QuantizationOptions(static="openvino"), QuantizationOptions()])
def test_samples_that_show_nothing(samples: Array, why: str, options: QuantizationOptions) -> None:
    with pytest.raises(UsageError, match=why):
        fit(graph(BODY), options, {"x": samples}, Budget(0.05))


def test_samples_that_the_model_refuses() -> None:
    with pytest.raises(UsageError, match="the model refuses the samples"):
        fit(graph(BODY), ALL, {"x": SAMPLES["x"][..., :7]}, Budget(0.05))


@pytest.mark.parametrize("options", [ALL, QuantizationOptions(static="openvino")])
def test_a_model_without_products_beside_samples(options: QuantizationOptions) -> None:
    with pytest.raises(UsageError, match="nothing to quantize"):
        fit(graph("y = Relu(x)"), options, SAMPLES, Budget(0.05))


def test_a_dtype_without_kernels_is_told_before_samples_run() -> None:
    model = graph("h = Cast <to = 16> (x) l = Cast <to = 16> (w) m = MatMul(h, l) y = Cast <to = 1> (m)")
    with pytest.raises(UsageError, match="nothing to quantize"):
        fit(model, ALL, SAMPLES, Budget(0.05))


def test_the_error_of_weights_in_few_bits_is_that_of_their_kernel() -> None:
    at_level_0, at_level_4 = (
        fit(graph(BODY), QuantizationOptions(accuracy_level=n), SAMPLES, Budget(1)) for n in (0, 4)
    )
    assert at_level_0.report.error is not None
    assert at_level_4.report.error is not None
    assert at_level_4.report.error > 1.2 * at_level_0.report.error  # its inputs are rounded, too


@pytest.mark.parametrize(
    ("mask", "rows"),
    [
        (np.array([[1, 0]], np.int64), [[0, 1]]),
        (np.array([[0, 0]], np.int64), []),
        (np.array([[True, False]]), [[0, 1]]),
        (np.array([[1.0, 0.0]], np.float32), [[0, 1]]),
        (np.array([[0.0, -1e9]], np.float32), [[0, 1], [2, 3]]),
        (np.array([[0.0, -np.inf]], np.float32), [[0, 1], [2, 3]]),
        (np.array([[0.0, 0.0]], np.float32), [[0, 1], [2, 3]]),
        (np.array([[7, 3]], np.int64), [[0, 1], [2, 3]]),
    ],
)
def test_a_mask_that_is_added_hides_no_row(mask: Array, rows: list[list[int]]) -> None:
    assert real_rows({"attention_mask": mask}, np.arange(4).reshape(1, 2, 2)).tolist() == rows


@pytest.mark.parametrize(("shown", "hidden", "length"), [(0.0, -1e9, 3), (1.0, 0.0, 2)])
def test_positions_that_an_added_mask_leaves_out_are_not_cut(shown: float, hidden: float, length: int) -> None:
    mask = np.array([[shown, shown, hidden]] * 2, np.float32)
    given = {"x": np.zeros((2, 3), np.float32), "attention_mask": mask}
    model = reading("x:float32[batch,seq]", "attention_mask:float32[batch,seq]")
    assert next(batches(given, model))["x"].shape == (2, length)


@pytest.mark.parametrize(("differing", "error"), [(0, 0.0), (1, 0.0), (2, 0.002), (50, 0.05), (51, np.inf)])
def test_integers_count_by_the_share_that_differs(differing: int, error: float) -> None:
    before = np.arange(100).reshape(10, 10)
    assert relative_error({"y": before}, {"y": np.where(before < differing, -1, before)}) == pytest.approx(error)


def test_bfloat16_is_judged() -> None:
    before, after = (np.array(each, ml_dtypes.bfloat16) for each in ([3.0, 4.0], [3.0, 4.5]))
    assert relative_error({"y": before}, {"y": after}) == pytest.approx(0.1)


@pytest.mark.parametrize("fill", [-1e4, -1e9, float(np.finfo(np.float32).min), -np.inf])
def test_a_fill_hides_no_error(fill: float) -> None:
    before = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    before[:, :2] = fill
    after = np.where(np.arange(8) < 2, before, -before).astype(np.float32)
    assert relative_error({"y": before}, {"y": after}) == pytest.approx(2.0)
    assert relative_error({"y": before}, {"y": before}) == 0.0
    gone = np.where(np.arange(8) < 2, 0, before).astype(np.float32)
    assert relative_error({"y": before}, {"y": gone}) >= 1.0


def test_a_zero_beside_fills_counts() -> None:
    before = np.triu(np.full((4, 4), -1e9, np.float32), 1)
    assert relative_error({"y": before}, {"y": np.where(np.eye(4), np.float32(-3), before)}) > 1.0
    assert relative_error({"y": before}, {"y": np.nextafter(before, np.float32(0))}) < 1e-6


@pytest.mark.parametrize("size", [1e200, 1.0, 1e-200])
def test_squares_neither_overflow_nor_vanish(size: float) -> None:
    right = {"first": np.ones(4), "y": np.array([3.0, 1.0, 2.0]) * size}
    assert relative_error(right, {**right, "y": -right["y"]}) == pytest.approx(2.0)
    assert relative_error(right, right) == 0.0


@pytest.mark.parametrize("fill", [-1e200, float(np.finfo(np.float64).min)])
def test_a_fill_of_float64_hides_no_error(fill: float) -> None:
    before = np.where(np.arange(8) < 2, fill, np.random.default_rng(0).standard_normal((4, 8)))
    after = np.where(np.arange(8) < 2, before, -before)
    assert relative_error({"y": before}, {"y": after}) == pytest.approx(2.0)
    assert relative_error({"y": before}, {"y": before}) == 0.0


def test_a_fill_among_tiny_numbers() -> None:
    tiny = np.array([1e-200, 1e-200, 1e-210, 2e-210])
    assert relative_error({"y": tiny}, {"y": tiny}) == 0.0
    assert relative_error({"y": tiny}, {"y": np.where(tiny > 1e-205, tiny, -tiny)}) == pytest.approx(2.0)
