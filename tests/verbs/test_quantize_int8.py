"""``fx.quantize`` with 8-bit activations: judged by budget or metric, and broken models are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch

import ffn_export as fx
from ffn_export.cli.main import run
from ffn_export.core import onnx_file
from ffn_export.quantization.options import BROKEN

Capture = pytest.CaptureFixture[str]
INT8 = fx.QuantizationOptions(int8=True)
X = np.random.default_rng(3).standard_normal((4, 9, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)).eval()
    path = tmp_path_factory.mktemp("plain") / "m.onnx"
    onnx_file.save(fx.fuse(fx.export(module, {"x": "float32[batch,seq,64]"}))[0], path)
    return path


@pytest.fixture(scope="module")
def quantized(path: Path) -> fx.Quantized:
    return fx.quantize(path, INT8, samples={"x": X})


@pytest.mark.slow
def test_it_is_smoothed_and_judged_on_the_samples(quantized: fx.Quantized) -> None:
    assert quantized.passed
    assert quantized.report.error is not None
    assert quantized.report.error < 0.03
    assert [weight.shape for weight in quantized.report.weights] == [(64, 128), (128, 64)]


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 9, 36])
def test_a_model_of_a_fixed_batch_takes_several(batch: int, path: Path, tmp_path: Path) -> None:
    model, fixed = onnx_file.load(path), tmp_path / "fixed.onnx"
    model.graph.inputs[0].shape = ir.Shape([batch, "seq", 64])
    onnx_file.save(model, fixed)
    samples = {"x": np.tile(X, (9, 1, 1))}
    made = fx.quantize(fixed, INT8, samples=samples, runtimes=["ort-cpu"])
    assert made.passed, made.failure
    assert {each.smoothing for each in made.report.weights} != {"not smoothed: not measured on samples or drawn inputs"}
    given = [each.case for each in made.parity.cases if each.case.startswith("given inputs")]
    assert given == ["given inputs"]
    again = fx.verify(made.model, against=fixed, samples=samples, tolerances=fx.Tolerances(relative_l2=0.1), fast=True)
    assert len({each.case for each in again.cases if each.case.startswith("given inputs")}) == 36 // batch
    assert again.passed
    with pytest.raises(fx.UsageError, match="expected float32"):
        fx.quantize(fixed, INT8, samples={"x": samples["x"][:0]})


@pytest.mark.slow
def test_without_samples_a_failure_says_what_is_missing(path: Path) -> None:
    found = fx.quantize(path, INT8, budget=1e-4, runtimes=["ort-cpu"])
    assert found.failure is not None
    assert found.failure.endswith("(judged on drawn inputs, which are no real activations: give samples of your own)")


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 1e-3])
def test_fixed_scales_are_for_inputs_of_the_size_of_the_samples(size: float, path: Path) -> None:
    samples = {"x": X * np.float32(size)}
    made = fx.quantize(path, fx.QuantizationOptions(static="openvino"), samples=samples, runtimes=["ort-cpu"])
    assert made.passed, made.failure

    def passes(**given: Any) -> bool:
        bound = fx.Tolerances(relative_l2=0.1)
        return fx.verify(made.model, against=path, tolerances=bound, runtimes=["ort-cpu"], **given).passed

    assert passes(samples=samples)
    assert passes(inputs={"x": f"float32[batch,seq,64]{{{-1.7 * size}..{1.7 * size}}}"})
    assert not passes()  # standard normal numbers are of another size


@pytest.mark.slow
def test_behind_a_norm_it_is_right_for_nan_and_infinity_too() -> None:
    module = torch.nn.Sequential(
        torch.nn.LayerNorm(32), torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)
    )
    exported = fx.export(module.eval(), {"x": "float32[batch,seq,32]"})
    assert fx.quantize(exported, INT8, samples={"x": X[..., :32]}).passed


@pytest.mark.slow
@pytest.mark.parametrize("activation", [torch.nn.Sigmoid(), torch.nn.Hardtanh()])
def test_infinity_that_an_activation_bounds_in_float32_is_a_warning(activation: torch.nn.Module) -> None:
    """A row of 8-bit integers cannot hold it, and is NaN."""
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), activation, torch.nn.Linear(64, 32)).eval()
    exported = fx.export(module, {"x": "float32[batch,seq,64]"})
    options = fx.QuantizationOptions(int8=True, all_products=True)
    found = fx.quantize(exported, options, samples={"x": X}, runtimes=["ort-cpu"])
    assert found.passed, found.failure
    parity = found.parity
    warned = [case.values for case in parity.cases if case.status(parity.tolerances) == "warned"]
    assert {"infinite", "infinite in parts"} <= set(warned)


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"])
def test_the_integer_kernel_runs_at_every_level(quantized: fx.Quantized, tmp_path: Path, level: str) -> None:
    onnx_file.save(quantized.model, tmp_path / "q.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(tmp_path / "run.onnx")
    onnxruntime.InferenceSession(tmp_path / "q.onnx", options, providers=["CPUExecutionProvider"])
    ran = [node.op_type for node in onnx_file.load(tmp_path / "run.onnx").graph]
    assert ran.count("MatMulIntegerToFloat") == 2
    assert not {"MatMul", "Gemm", "MatMulInteger", "FusedGemm"} & set(ran)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["input scale", "zero point", "column", "columns", "rows"])
def test_a_broken_model_fails_on_drawn_inputs(quantized: fx.Quantized, path: Path, tmp_path: Path, fault: str) -> None:
    proto = ir.to_proto(quantized.model)
    model = ir.from_proto(proto)
    product = next(node for node in model.graph if node.op_type == "MatMulIntegerToFloat")
    if fault == "rows":  # the scale of each row is not multiplied back
        (after, _), *_ = product.outputs[0].uses()
        ir.convenience.replace_all_uses_with(after.outputs[0], product.outputs[0])
    else:
        value = product.inputs[{"input scale": 2, "zero point": 4, "column": 3, "columns": 1}[fault]]
        assert value is not None
        assert value.const_value is not None
        array = value.const_value.numpy().copy()
        if fault == "input scale":
            array = array * np.float32(2)
        elif fault == "zero point":
            array = np.zeros_like(array)
        elif fault == "column":
            array[3] *= 10
        else:
            array = np.roll(array, 1, axis=1)
        # Only this product reads the changed value.
        other = ir.Value(name=f"{value.name}_wrong", const_value=ir.tensor(array, name=f"{value.name}_wrong"))
        other.type, other.shape = value.type, value.shape
        model.graph.register_initializer(other)
        product.replace_input_with(list(product.inputs).index(value), other)
    onnx_file.save(model, tmp_path / "broken.onnx")
    result = fx.verify(
        tmp_path / "broken.onnx", path, runtimes=["ort-cpu"], tolerances=fx.Tolerances(relative_l2=BROKEN)
    )
    assert any("normal" in failure for failure in result.failures)


@pytest.mark.slow
def test_by_the_command_line(path: Path, tmp_path: Path, capfd: Capture) -> None:
    np.savez(tmp_path / "x.npz", x=X)
    out, plot = tmp_path / "q.onnx", tmp_path / "curve.svg"
    command = ["quantize", str(path), "-o", str(out), "--int8", "--samples", str(tmp_path / "x.npz")]
    assert run([*command, "--metric", "cosine=0.999", "--plot", str(plot), "--json", "-"]) == 0
    said = capfd.readouterr()
    data = json.loads(said.out)
    assert data["metric"]["value"] > 0.999
    assert len(data["quantization"]["sensitivities"]) == 2
    assert "cosine: " in said.err
    assert " MiB of memory" in said.err
    assert plot.read_text().startswith("<svg")
    out.unlink()
    assert run([*command, "--metric", "cosine=1", "--quiet"]) == 1
    assert "is not written: cosine: 0.99" in capfd.readouterr().err
    assert run([*command, "--budget", "1e-5", "--quiet"]) == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--int8", "--bits", "8"], "--bits stores weights in blocks"),
        (["--int8", "--block", "32"], "--block stores weights in blocks"),
        (["--int8", "--metric", "cosine=0.9"], "are measured on real inputs: give samples"),
        (["--int8", "--metric", "bleu=0.9"], "--metric bleu=0.9 is not known"),
        (["--int8", "--texts", "gone.txt"], "cannot read gone.txt"),
    ],
)
def test_wrong_use_is_one_line(path: Path, tmp_path: Path, capfd: Capture, wrong: list[str], told: str) -> None:
    assert run(["quantize", str(path), "-o", str(tmp_path / "q.onnx"), *wrong, "--quiet"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert told in line


@pytest.mark.slow
def test_a_bundle(tmp_path: Path) -> None:
    built = fx.build("d2l-ffn", directory=tmp_path, quantization=INT8, bench_budget=0, samples=None)
    assert built.manifest is not None
    assert built.manifest.quantization == {"int8": True, "matrices": 2}
    assert built.manifest.tolerances["relative_l2"] == 0.1
    assert fx.verify(built.directory).passed
    assert fx.load(built.directory).run({"x": np.ones((1, 2, 4), np.float32)})["y"].shape == (1, 2, 4)
    page = (built.directory / "report.html").read_text()
    assert "--int8 --budget 0.1" in page


def test_cuda_has_no_kernel_for_it(tmp_path: Path) -> None:
    with pytest.raises(fx.UsageError, match="CUDA has no kernel for products of 8-bit integers"):
        fx.build("d2l-ffn", directory=tmp_path, quantization=INT8, target="ort-cuda")
