"""Who judges a model: by default, by name, and where ONNX Runtime has no kernel."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch

import ffn_export as fx
from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.exporter.source import Source, from_module
from ffn_export.latency.measure import measure
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.judging.select_runtimes import load
from ffn_export.parity.reference.references import OnnxReference, TorchReference
from ffn_export.runtimes import ort_accelerator
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.one_run import LoadedForEachRun
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.registry import RUNTIMES
from tests.runtimes.graphs import write

NO_KERNEL = r"lacks a kernel: Could not find an implementation for MatMul\(13\)"


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA has kernels that the CPU lacks: judge as on a machine without a GPU."""
    monkeypatch.setattr(ort_accelerator, "provider_problem", lambda _: "there is no GPU")


@pytest.fixture
def layer() -> Source:
    """A bfloat16 layer without bias."""
    torch.manual_seed(0)
    module = torch.nn.Linear(8, 8, bias=False).bfloat16().eval()
    return from_module(module, {"x": "bfloat16[batch,8]"}, "layer")


@pytest.fixture
def path(layer: Source, tmp_path: Path) -> Path:
    """The same as one MatMul, for which ONNX Runtime's CPU provider has no kernel in bfloat16."""
    artifact = write(tmp_path, "(bfloat16[batch,8] x) => (bfloat16[batch,8] y)", "y = MatMul(x, weight)")
    assert artifact.model_path is not None
    model = onnx.load(artifact.model_path)
    weight = next(layer.module.parameters()).detach().T.contiguous()
    bits = weight.view(torch.int16).numpy().tobytes()
    model.graph.initializer.append(onnx.helper.make_tensor("weight", onnx.TensorProto.BFLOAT16, [8, 8], bits, raw=True))
    onnx.save(model, artifact.model_path)
    return artifact.model_path


def test_only_onnxruntime_judges_by_default() -> None:
    assert {name for name, runtime in RUNTIMES.items() if runtime.by_default} == {"ort-cpu", "ort-cuda"}


def test_what_no_default_runtime_can_load_the_evaluator_judges(layer: Source, path: Path) -> None:
    result = run_cases(path, TorchReference(layer, 1))
    assert result.judged == ("reference",), result.unavailable
    assert {check.name: check.verdict for check in result.checks}["interface"] == "passed"
    assert result.passed, result.failures
    assert "Could not find an implementation for MatMul(13)" in result.unavailable["ort-cpu"]
    assert "\n" not in result.unavailable["ort-cpu"]
    assert set(result.unavailable) == {"ort-cpu", "ort-cuda"}
    assert result.precision == {"reference": "bfloat16, half precision summed in float32"}


def test_a_result_is_read_as_it_was_stored(layer: Source, path: Path) -> None:
    result = run_cases(path, TorchReference(layer, 1), runtimes=["reference"], cases=[])
    assert list(result.precision) == ["reference"]
    assert ParityResult.from_dict(result.to_dict()) == result


@pytest.mark.parametrize(("runtimes", "is_run"), [(["torch"], False), (["torch", "reference"], True)])
def test_judges_of_the_module_alone_are_told_apart(
    layer: Source, path: Path, runtimes: list[str], is_run: bool
) -> None:
    result = run_cases(path, TorchReference(layer, 1), runtimes=runtimes)
    assert result.passed, result.failures
    note = f"{path.name} itself was not run, only the PyTorch module: by torch; ask a runtime of the file too"
    assert (note not in result.notes) == is_run


def test_a_missing_kernel_makes_a_named_runtime_unavailable(layer: Source, path: Path) -> None:
    with pytest.raises(RuntimeUnavailableError, match=NO_KERNEL):
        run_cases(path, TorchReference(layer, 1), runtimes=["ort-cpu"])


def test_a_model_that_a_named_runtime_refuses_has_failed(layer: Source, path: Path) -> None:
    model = onnx.load(path)
    model.graph.node[0].op_type = "NoSuchOperator"
    onnx.save(model, path)
    result = run_cases(path, TorchReference(layer, 1), runtimes=["ort-cpu"], cases=[])
    assert not result.passed
    assert "NoSuchOperator" in " ".join(result.failures)
    assert result.notes == ()
    (broken,) = result.cases
    assert broken == CaseResult("ort-cpu", "loading the model", {}, "none", 0, error=broken.error)
    unnamed = run_cases(path, TorchReference(layer, 1), cases=[])
    assert set(unnamed.unavailable) == {"ort-cpu", "ort-cuda", "reference"}
    assert "no runtime could judge" in unnamed.failures[0]


@pytest.mark.parametrize("for_each_run", [True, False])
def test_a_file_is_loaded_once_or_for_each_run(layer: Source, path: Path, for_each_run: bool) -> None:
    loaded, _, _ = load(Artifact(path, layer), ["reference"], 1, for_each_run=for_each_run)
    assert isinstance(loaded["reference"], LoadedForEachRun) == for_each_run


def test_an_unknown_name_is_bad_usage_and_no_failed_case(layer: Source, path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'reference'"):
        run_cases(path, TorchReference(layer, 1), runtimes=["referense"])


def test_one_name_in_place_of_a_list_is_not_read_letter_by_letter(layer: Source, path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape("runtimes are a list of names such as ['ort-cpu'], got 'ort-cpu'")):
        run_cases(path, TorchReference(layer, 1), runtimes="ort-cpu")
    with pytest.raises(UsageError, match="runtimes are a list of names"):
        measure(Artifact(path, layer), layer.inputs, [{}], runtimes="ort-cpu")


def test_what_is_no_model_is_said_to_be_none(layer: Source, path: Path) -> None:
    with pytest.raises(UsageError, match=r"Linear is no ONNX model, file or bundle: a module is what"):
        fx.verify(layer.module, path)  # type: ignore[arg-type]
    assert fx.verify(onnx.load(path), layer.module).passed


def test_a_model_without_kernels_is_a_reference_too(path: Path) -> None:
    assert run_cases(path, OnnxReference(path, 1)).judged == ("reference",)


@pytest.mark.slow
def test_timing_goes_on_without_a_runtime_that_was_not_named(layer: Source, path: Path) -> None:
    artifact = Artifact(path, layer)
    result = measure(artifact, layer.inputs, [{"batch": 2}], budget=0.01)
    assert [timing.runtime for timing in result.measurements[0].timings] == ["torch"]
    assert set(result.unavailable) == {"ort-cpu", "ort-cuda"}
    with pytest.raises(RuntimeUnavailableError, match=NO_KERNEL):
        measure(artifact, layer.inputs, [{"batch": 2}], runtimes=["ort-cpu"], budget=0.01)
    alone = measure(Artifact(path), parse_inputs({"x": "bfloat16[batch,8]"}), [{"batch": 2}], budget=0.01)
    assert alone.measurements == ()


def test_bfloat16_goes_through_onnxruntime_where_it_has_kernels(tmp_path: Path) -> None:
    signature = "(bfloat16[N,4] x, bfloat16[4] gamma) => (bfloat16[N,4] y)"
    artifact = write(tmp_path, signature, "y = com.microsoft.SkipLayerNormalization(x, x, gamma)")
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    for rows in (0, 3):
        x = np.arange(rows * 4).reshape(rows, 4).astype(bfloat16)
        (y,) = OrtCpu().load(artifact, 1).run({"x": x, "gamma": np.ones(4, bfloat16)}).values()
        assert (y.dtype, y.shape) == (bfloat16, (rows, 4))
