from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, save

from executed import executed_kernels
from ffn_export.core.drawing import numpy_dtype
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.exporter.source import Source
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.ort_session import OrtRunner, make_session
from ffn_export.runtimes.ort_values import to_array
from ffn_export.runtimes.registry import get_runtime
from ffn_export.runtimes.session_options import NO_OPTIMIZER, SessionSettings
from ffn_export.runtimes.torch_eager import TorchEager
from tests.runtimes.graphs import write


def bert(tmp_path: Path, fused_file: Callable[..., Path]) -> tuple[Path, dict[str, np.ndarray]]:
    return fused_file("bert-ffn"), {"x": np.ones((1, 2, 768), np.float32)}


@pytest.mark.slow
def test_session_options_stop_refusing_at_every_level(tmp_path: Path, fused_file: Callable[..., Path]) -> None:
    path, feeds = bert(tmp_path, fused_file)
    written = ["MatMul", "Add", "Gelu", "MatMul", "Add", "Add", "LayerNormalization"]
    kept = SessionSettings("all")
    assert [k.operator for k in executed_kernels(path, SessionSettings(), feeds)] == written
    assert [k.operator for k in executed_kernels(path, kept, feeds)] == written
    # Without the entries onnxruntime fuses them again: the check above can fail.
    assert "SkipLayerNormalization" in [k.operator for k in executed_kernels(path, SessionSettings("all", {}), feeds)]


def test_threads_are_set_and_never_left_to_onnxruntime() -> None:
    assert SessionSettings().session_options(3).intra_op_num_threads == 3
    assert SessionSettings().session_options().intra_op_num_threads >= 1


def test_settings_survive_a_manifest() -> None:
    settings = SessionSettings("extended", {"session.disable_prepacking": "1"})
    assert SessionSettings.from_dict(settings.to_dict()) == settings


def test_every_node_is_shown_to_be_on_the_cpu(fused_file: Callable[..., Path]) -> None:
    runner = OrtCpu().load(Artifact(fused_file("d2l-ffn"), settings=NO_OPTIMIZER), 1)
    assert runner.placement() == {"CPUExecutionProvider": 5}


@pytest.mark.parametrize("dtype", ["float", "float16", "bfloat16"])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_what_is_bound_gives_the_same_as_a_run(dtype: str, rows: int, tmp_path: Path) -> None:
    artifact = write(tmp_path, f"({dtype}[N,3] x) => ({dtype}[3,N] y, int64[2] s)", "y = Transpose(x)\n s = Shape(x)")
    runner = OrtCpu().load(artifact, 1)
    assert isinstance(runner, OrtRunner)
    feeds = {"x": np.arange(3 * rows).reshape(rows, 3).astype(numpy_dtype("float32" if dtype == "float" else dtype))}
    expected = runner.run(feeds)
    binding = runner.bind(feeds, "cpu")
    for _ in range(2):  # the second run has its outputs allocated
        runner.session.run_with_iobinding(binding)
        outputs = map(to_array, binding.get_outputs())
        for value, name in zip(outputs, expected, strict=True):
            assert value.dtype == expected[name].dtype
            assert np.array_equal(value, expected[name])


def test_a_file_that_onnxruntime_refuses_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    node = helper.make_node("NoSuchOperator", ["x"], ["y"])
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    model: ModelProto = helper.make_model(helper.make_graph([node], "g", value[:1], value[1:]))
    save(model, path)
    with pytest.raises(UsageError, match=r"does not load bad\.onnx") as caught:
        make_session(path, SessionSettings())
    assert "\n" not in str(caught.value)


def test_a_runtime_says_why_it_cannot_run(source: Callable[[str], Source]) -> None:
    assert "no ONNX model" in str(OrtCpu().unavailable(Artifact(source=source("d2l-ffn"))))
    with pytest.raises(RuntimeUnavailableError, match="no PyTorch module"):
        TorchEager().load(Artifact(Path("x.onnx")), 1)


def test_an_unknown_runtime_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'ort-cpu'"):
        get_runtime("ort-cup")


def test_torch_and_ort_give_named_arrays_of_one_shape(
    source: Callable[[str], Source], fused_file: Callable[..., Path]
) -> None:
    artifact = Artifact(fused_file("d2l-ffn"), source("d2l-ffn"))
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)}
    ours, theirs = OrtCpu().load(artifact, 1).run(feeds), TorchEager().load(artifact, 1).run(feeds)
    assert list(ours) == list(theirs) == ["y"]
    assert np.abs(ours["y"] - theirs["y"]).max() < 1e-6
