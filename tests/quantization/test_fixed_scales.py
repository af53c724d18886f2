"""Activations with one scale, calibrated on samples: written to the limits of each engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import ffn_export as fx
from ffn_export.calibration.calibrated import quantize_by_samples
from ffn_export.calibration.ranges import ranges
from ffn_export.cli.main import run as run_command
from ffn_export.core import onnx_file
from ffn_export.errors import UsageError
from ffn_export.quantization.engines import ENGINES
from ffn_export.quantization.options import CALIBRATIONS, QuantizationOptions
from tests.quantization.test_int8 import NORMED, UNEVEN, X, integers
from tests.quantization.test_quantize import FEED_FORWARD, graph, operators, relative, run

GATED = "m = MatMul(x, w) a = Add(m, b) u = MatMul(x, table) g = Sigmoid(a) h = Mul(g, u) y = MatMul(h, v)"


def static(engine: str = "openvino", calibration: str = "minmax") -> QuantizationOptions:
    return QuantizationOptions(all_products=True, static=engine, calibration=calibration)


def array(value: ir.Value | None) -> Any:
    assert value is not None
    assert value.const_value is not None
    return value.const_value.numpy()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_the_limits_of_each_engine(engine: str) -> None:
    quantized, report = quantize_by_samples(graph(GATED), static(engine), {"x": X})
    assert len(report.weights) == 3
    assert engine in report.form
    assert "com.microsoft" not in {node.domain for node in quantized.graph}
    limits = ENGINES[engine]
    for node in quantized.graph:
        if node.op_type == "QuantizeLinear":
            scale, zero = array(node.inputs[1]), array(node.inputs[2])
            assert scale.shape == zero.shape == ()
            assert zero.dtype == (np.int8 if limits.symmetric else np.uint8)
            assert zero == 0 or not limits.symmetric
        if node.op_type == "MatMul":
            data, weight = (value.producer() for value in node.inputs if value is not None)
            assert data is not None
            assert weight is not None
            assert data.op_type == weight.op_type == "DequantizeLinear"
            numbers, scales = array(weight.inputs[0]), array(weight.inputs[1])
            assert numbers.dtype == np.int8
            assert len(weight.inputs) == 2  # no zero point: symmetric
            assert scales.shape == (() if limits.per_tensor else numbers.shape[1:])
            assert weight.attributes.get_int("axis", 1) == 1
            assert ("QuantizeLinear" in [user.op_type for user, _ in node.outputs[0].uses()]) == limits.outputs


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_it_is_close_on_the_samples(engine: str, calibration: str) -> None:
    model = graph(GATED)
    quantized, _ = quantize_by_samples(model, static(engine, calibration), {"x": X})
    # On few numbers, entropy cuts more than is good.
    assert relative(run(quantized, X), run(model, X)) < (0.2 if calibration == "entropy" else 0.05)


def test_smoothing_moves_the_spread_into_the_weights() -> None:
    model = graph(NORMED + "z = MatMul(n, w) h = Gelu(z) y = MatMul(h, v)")
    quantized, report = quantize_by_samples(model, static("tensorrt"), {"x": UNEVEN})
    assert report.weights[0].smoothing == "in the norm before"
    assert relative(run(quantized, UNEVEN), run(model, UNEVEN)) < 0.03


def test_few_rows_do_not_fill_the_range_of_others() -> None:
    few, others = np.split(np.random.default_rng(5).standard_normal((2, 100, 40)).astype(np.float32), 2)
    model = graph("m = MatMul(x, w) h = Relu(m) y = MatMul(h, v)")
    quantized, _ = quantize_by_samples(model, static(), {"x": few})
    assert relative(run(quantized, others), run(model, others)) < 0.02  # 0.04 by the extremes of each channel


def test_a_product_of_a_product_has_two_ranges() -> None:
    model = graph("m = MatMul(x, w) y = MatMul(m, v)")
    matrix = array(model.graph.initializers["w"]) * np.where(np.arange(48) < 2, 60, 1).astype(np.float32)
    model.graph.initializers["w"].const_value = ir.tensor(matrix, name="w")
    quantized, report = quantize_by_samples(model, static("qnn"), {"x": X})
    assert report.weights[1].smoothing == "by a Mul of its own"
    assert relative(run(quantized, X), run(model, X)) < 0.1


def test_products_share_an_input_and_a_matrix() -> None:
    quantized, report = quantize_by_samples(
        graph("m = MatMul(x, w) n = MatMul(x, table) s = Add(m, n) k = MatMul(s, v) l = MatMul(k, w) y = MatMul(l, v)"),
        static(),
        {"x": X},
    )
    assert operators(quantized).count("QuantizeLinear") == 4
    assert len(report.weights) == len(integers(quantized)) == 3


def test_ranges_leave_out_what_is_rare() -> None:
    x = np.random.default_rng(0).standard_normal((4, 4000, 40)).astype(np.float32)
    x[0, 0, 0] = 1000
    model = graph("m = MatMul(x, w) y = MatMul(m, v)")
    found = {method: ranges(model, method, {"x": None}, {"x": x})["x"] for method in CALIBRATIONS}
    assert found["minmax"] == (x.min(), 1000)
    for method in ("percentile", "entropy"):
        low, high = found[method]
        assert -6 < low < -3, method
        assert 3 < high < 600, method  # entropy keeps a quarter of the bins
    halved = ranges(model, "minmax", {"x": np.full(40, 2, np.float32)}, {"x": x})["x"]
    assert halved == (x.min() / 2, 500)


@pytest.mark.slow
def test_openvino_runs_it(tmp_path: Path) -> None:
    onnx_file.save(fx.export("d2l-ffn"), tmp_path / "m.onnx")
    x = np.random.default_rng(0).standard_normal((4, 9, 4)).astype(np.float32)
    made = fx.quantize(tmp_path / "m.onnx", static(), samples={"x": x}, runtimes=["openvino"])
    assert made.passed, made.failure
    assert made.parity.judged == ("openvino",)
    assert made.report.error is not None
    assert 1e-4 < made.report.error < 0.05


@pytest.mark.slow
def test_by_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    onnx_file.save(fx.export("d2l-ffn"), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).standard_normal((4, 9, 4)).astype(np.float32))
    command = ["quantize", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "q.onnx"), "--runtime", "ort-cpu"]
    samples = ["--samples", str(tmp_path / "x.npz")]
    assert run_command([*command, *samples, "--static"]) == 0
    assert "one scale for each input, for openvino" in capfd.readouterr().err
    assert run_command([*command, *samples, "--static", "qnn", "--calibration", "percentile"]) == 0
    assert "for qnn (its documented limits; not run here)" in capfd.readouterr().err
    for wrong, told in (
        (["--static"], "static scales are calibrated on real inputs: give samples"),
        (["--int8", "--calibration", "entropy"], "--calibration finds the ranges of --static"),
        (["--static", "npu", *samples], "'npu' is not one of"),
    ):
        assert run_command([*command, *wrong, "--quiet"]) == 2
        assert told in capfd.readouterr().err


def test_what_is_refused() -> None:
    with pytest.raises(fx.UsageError, match="an engine 'npu' is not known: take openvino, tensorrt, coreml, qnn"):
        QuantizationOptions(static="npu")
    with pytest.raises(fx.UsageError, match="take static, too"):
        QuantizationOptions(int8=True, calibration="entropy")
    old = graph(FEED_FORWARD)
    old.opset_imports[""] = 11
    with pytest.raises(fx.UsageError, match="the model has opset 11, fixed scales need 13"):
        quantize_by_samples(old, static(), {"x": X})
    assert static("qnn", "entropy").command_line() == ("--static", "qnn", "--calibration", "entropy", "--all")


def test_a_model_with_fixed_scales_is_in_integers_already() -> None:
    quantized, _ = quantize_by_samples(graph(FEED_FORWARD), static(), {"x": X})
    with pytest.raises(UsageError, match="in 8-bit integers already"):
        quantize_by_samples(quantized, QuantizationOptions(int8=True, all_products=True), None)


@pytest.mark.slow
def test_the_output_of_a_product_in_a_branch_has_no_range() -> None:
    chosen = "then_branch = t () => (float[batch,seq,48] z) { z = MatMul(x, w) }, "
    chosen += "else_branch = e () => (float[batch,seq,48] z) { z = Identity(b) }"
    model = graph(f"s = ReduceSum <keepdims = 0> (x) d = Equal(s, s) y = If (d) <{chosen}>")
    quantized, report = quantize_by_samples(model, static("qnn"), {"x": X})
    assert len(report.weights) == 1
    assert relative(run(quantized, X), run(model, X)) < 0.05


def test_a_product_in_a_body_is_kept_for_its_reason() -> None:
    body = """
        turns = Constant <value_int = 3> ()
        last = Loop (turns, "", x) <body = turn (int64 i, bool go, float[batch,seq,40] h) => (bool on, float[b,s,40] n)
            { on = Identity(go) m = MatMul(h, w) r = Relu(m) n = MatMul(r, v) }>
    """
    with pytest.raises(UsageError, match="its input is computed in the body of a Loop"):
        quantize_by_samples(graph(f"{body} y = Identity(last)"), static(), {"x": X})
    _, report = quantize_by_samples(graph(f"{body} {GATED.replace('(x', '(last')}"), static(), {"x": X})
    assert len(report.weights) == 3
    assert any("body of a Loop" in why for why in (report.kept or {}).values())
    with pytest.raises(UsageError, match="no sample has numbers"):
        quantize_by_samples(graph(FEED_FORWARD), static(), {"x": np.full_like(X, np.inf)})


@pytest.mark.parametrize("options", [static(), static("qnn"), QuantizationOptions(int8=True, all_products=True)])
def test_a_value_of_a_body_is_not_that_of_its_name_in_the_main_graph(options: QuantizationOptions) -> None:
    """`h` has 40 columns in the body and 48 outside; that of the body is a thousand times as large."""
    body = """
        turns = Constant <value_int = 1> ()
        last = Loop (turns, "", x) <body = turn (int64 i, bool go, float[batch,seq,40] e) => (bool on, float[b,s,40] n)
            { on = Identity(go) large = Constant <value_float = 1000.0> () h = Mul(e, large) m = MatMul(h, w)
              k = Relu(m) n = MatMul(k, v) }>
        small = Constant <value_float = 0.001> () less = Mul(last, small)
    """
    model = graph(f"{body} {GATED.replace('(x', '(less')}")
    quantized, report = quantize_by_samples(model, options, {"x": X})
    assert len(report.weights) == 3
    assert len(report.kept or {}) == (2 if options.static else 0)
    assert relative(run(quantized, X), run(model, X)) < 0.1
