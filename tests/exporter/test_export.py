from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ffn_export as fx
from ffn_export.core import onnx_file
from ffn_export.errors import ExportError
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module, resolve, with_samples
from tests.exporter.helpers import X, assert_same_function, exported, module_of, ops, refusal, refused, run, shapes

pytestmark = pytest.mark.usefixtures("shell_words")

ROOT = Path(__file__).parents[2]
# --- axes and opsets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_every_axis_asked_for_is_symbolic_under_its_name(rank: int) -> None:
    axes = ["a", "b.c", "N"][: rank - 1]  # N is a function to sympy
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    source = from_module(module, {"input": f"float32[{','.join([*axes, '4'])}]"})
    model = export_source(source)
    shape = f"[{','.join([*axes, '4'])}]"
    assert shapes(model.graph.inputs) == {"input": shape}
    assert shapes(model.graph.outputs) == {"y": shape}
    for first in (0, 1, 2, 5):
        assert_same_function(source, model, {name: first + i for i, name in enumerate(axes)})


@pytest.mark.slow
def test_axes_that_are_computed_from_others_are_written_in_their_names() -> None:
    model = exported(module_of(lambda self, x: (torch.cat([x, x], 1), x.flatten(0, 1))), X)
    assert shapes(model.graph.outputs) == {"output_0": "[batch,2*seq,4]", "output_1": "[seq*batch,4]"}


def test_names_that_are_torchs_own_symbols() -> None:
    # torch calls the axes of x s77 and s27: swapped, a renaming one after the other would mix them up.
    model = exported(module_of(lambda self, x: torch.cat([x, x], 1)), {"x": "float32[s27,s77,4]"})
    assert shapes(model.graph.outputs) == {"y": "[s27,2*s77,4]"}


@pytest.mark.slow
def test_one_name_on_two_axes_and_static_axes_of_any_size() -> None:
    source = from_module(module_of(lambda self, x: x @ x), {"x": "float32[n,n]"})
    assert_same_function(source, export_source(source), {"n": 1}, {"n": 7})
    for size in (0, 1):
        model = exported(nn.ReLU(), {"x": f"float32[{size},seq,4]"})
        assert shapes(model.graph.outputs) == {"y": f"[{size},seq,4]"}


def test_bounds_of_1_trace_at_1_and_stay_symbolic() -> None:
    model = exported(nn.Linear(4, 4), {"x": "float32[a<=1,b<=1,4]"})
    assert shapes(model.graph.outputs) == {"y": "[a,b,4]"}


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 20, 23])
def test_the_opset_is_the_one_asked_for(opset: int) -> None:
    model = exported(nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.RMSNorm(4)), {"x": "float32[n,4]"}, opset)
    assert model.opset_imports == {"": opset}
    assert ("Gelu" in ops(model)) == (opset >= 20)
    assert ("RMSNormalization" in ops(model)) == (opset >= 23)


@pytest.mark.parametrize("opset", [-1, 0, 17, 99])
def test_an_opset_that_cannot_be_had(opset: int, capfd: pytest.CaptureFixture[str]) -> None:
    message = refused(nn.Linear(4, 4), {"x": "float32[n,4]"}, opset)
    assert f"opset {opset} is not written by torch's exporter" in message
    assert "use --opset 18 to " in message
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_an_opset_that_cannot_be_had_for_this_module(capfd: pytest.CaptureFixture[str]) -> None:
    # Past 25, torch writes 18 and converts, which fails for this module with no more than a log line.
    message = refused(nn.RMSNorm(4), {"x": "float32[n,4]"}, 26)
    assert message == "opset 26 is not supported for this module, torch's exporter stayed at 18: use a lower --opset"
    assert capfd.readouterr() == ("", "")


# --- training mode ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_module_in_training_is_exported_in_evaluation_and_put_back() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    module.train()
    module[0].eval()
    source = from_module(module, {"x": "float32[n,4]"})
    model = export_source(source)
    assert [part.training for part in module] == [False, True, True]
    assert module.training
    assert module[2].num_batches_tracked == 0
    assert "Dropout" not in ops(model)
    assert_same_function(source, model, {"n": 1}, {"n": 5})


def test_a_module_is_put_back_after_a_failure_too() -> None:
    def raising(self: nn.Module, x: Tensor) -> Tensor:
        raise ValueError("of the module's own")

    module = module_of(raising, dropout=nn.Dropout(0.5)).train()
    refused(module)
    assert module.training
    assert all(part.training for part in module.modules())


# --- inputs and outputs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        (lambda self, a, *, scale, bias=None: a * scale if bias is None else a * scale + bias, ("scale", "a", "bias")),
        (lambda self, a, *, scale, bias=None: a * scale if bias is None else a * scale + bias, ("a", "scale")),
        (lambda self, a, b=None, c=None: a - 2 * c if b is None else b, ("a", "c")),
        (lambda self, *a: a[0] - 2 * a[1], ("p", "q")),
        (lambda self, a, *rest: a - 2 * rest[0] + rest[1], ("a", "p", "q")),
        (lambda self, **k: k["p"] - 2 * k["q"], ("q", "p")),
        (lambda self, a, **k: a - 2 * k["z"], ("z", "a")),
        (lambda self, *args, **kwargs: torch.sub(*args, **kwargs), ("a", "b")),
        (eval("lambda self, a, b, /: a - 2 * b"), ("b", "a")),
    ],
)
def test_every_kind_of_parameter(forward: Callable[..., Any], inputs: tuple[str, ...]) -> None:
    source = from_module(module_of(forward), dict.fromkeys(inputs, "float32[n,4]"))
    model = export_source(source)
    assert [value.name for value in model.graph.inputs] == [spec.name for spec in source.inputs]
    assert_same_function(source, model, {"n": 3}, {"n": 1})


def test_outputs_of_every_kind() -> None:
    def forward(self: Any, x: Tensor) -> Any:
        y = x + 1
        return {"x": y, "same": y, "input": x, "none": None, "constant": torch.ones(3), "list": [y * 2, (x.mean(1),)]}

    source = from_module(module_of(forward), X)
    model = export_source(source)
    assert shapes(model.graph.outputs) == {
        "x_out": "[batch,seq,4]",
        "same": "[batch,seq,4]",
        "input": "[batch,seq,4]",
        "constant": "[3]",
        "list_0": "[batch,seq,4]",
        "list_1_0": "[batch,4]",
    }
    assert_same_function(source, model, {"batch": 1, "seq": 3})


def test_an_input_that_reaches_no_output_stays_an_input() -> None:
    source = from_module(module_of(lambda self, x, unused: x + 1), {"x": "float32[n]", "unused": "float32[n,m]"})
    model = export_source(source)
    assert shapes(model.graph.inputs) == {"x": "[n]", "unused": "[n,m]"}
    assert_same_function(source, model, {"n": 2, "m": 3})


@pytest.mark.parametrize("dtype", ["int64", "int8", "bool"])
def test_integer_and_boolean_inputs(dtype: str) -> None:
    source = from_module(module_of(lambda self, x: x.float() * 2), {"x": f"{dtype}[n,m]"})
    assert_same_function(source, export_source(source), {"n": 3, "m": 5})


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 1e-2), ("float64", 1e-12)])
def test_modules_of_other_precision(dtype: str, tolerance: float) -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).to(getattr(torch, dtype))
    source = from_module(module, {"x": f"{dtype}[n,4]"})
    model = export_source(source)
    assert {str(value.dtype).lower() for value in (*model.graph.inputs, *model.graph.outputs)} == {
        dtype.replace("float64", "double")
    }
    assert_same_function(source, model, {"n": 5}, tolerance=tolerance)


@pytest.mark.slow
def test_bfloat16() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.Conv1d(3, 3, 1)).to(torch.bfloat16)
    model = exported(module, {"x": "bfloat16[n,3,4]"})  # no CPU kernels in ONNX Runtime
    assert {str(value.dtype) for value in model.graph.initializers.values()} >= {"BFLOAT16"}
    assert str(model.graph.outputs[0].dtype) == "BFLOAT16"


def test_the_users_arrays_are_traced_with() -> None:
    def forward(self: Any, x: Tensor, lengths: Tensor) -> Tensor:
        if not torch.compiler.is_exporting() and lengths.max() != 7:
            raise ValueError("drawn lengths do not do")
        return x * lengths[:, None]

    source = from_module(module_of(forward), {"x": "float32[n,4]", "lengths": "int64[n]"})
    assert "drawn lengths do not do" in refusal(ExportError, export_source, source)
    arrays = {"x": np.ones((3, 4), np.float32), "lengths": np.array([1, 2, 7])}
    assert shapes(export_source(with_samples(source, arrays)).graph.outputs) == {"y": "[n,4]"}


# --- the same bytes -----------------------------------------------------------------------------------

_EXPORT = """
import sys
from ffn_export.core import onnx_file
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import resolve
source = resolve("model_code:make", ["x:float32[batch,seq,16]"], seed=3)
onnx_file.save(export_source(source), sys.argv[1])
"""
_MODEL_CODE = """
from torch import nn
def make():
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16), nn.LayerNorm(16))
"""


@pytest.mark.integration
def test_the_same_bytes_from_another_directory_and_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "another/place"
    for each in (tmp_path, directory):
        each.mkdir(parents=True, exist_ok=True)
        (each / "model_code.py").write_text(_MODEL_CODE)
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _EXPORT, "model.onnx"]
    subprocess.run(command, cwd=directory, env=environment, check=True, timeout=600)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", ["-c", "model.onnx"])
    exec(_EXPORT, {})
    del sys.modules["model_code"]
    files = [(each / "model.onnx").read_bytes() for each in (tmp_path, directory)]
    assert files[0] == files[1]
    for path in (tmp_path, ROOT, Path(sys.prefix), Path(torch.__file__).parent, Path.home()):
        assert str(path).encode() not in files[0]


@pytest.mark.slow
def test_the_same_bytes_twice_in_one_process_and_no_path_inside(tmp_path: Path) -> None:
    for name in ("first", "second"):
        onnx_file.save(export_source(resolve("d2l-ffn")), tmp_path / name)
    data = (tmp_path / "first").read_bytes()
    assert data == (tmp_path / "second").read_bytes()
    assert b".py" not in data
    assert str(ROOT).encode() not in data


def test_a_tied_weight_is_in_the_file_once() -> None:
    table = nn.Embedding(300, 64)
    module = module_of(lambda self, ids: F.linear(self.table(ids), self.table.weight), table=table)
    source = from_module(module, {"ids": "int64[n]"})
    model = export_source(source)
    assert onnx_file.weight_bytes(model) == 300 * 64 * 4
    assert_same_function(source, model, {"n": 5})


@pytest.mark.slow
def test_a_layer_called_twice_is_in_the_file_once() -> None:
    module = module_of(lambda self, x: self.layer(F.relu(self.layer(x))), layer=nn.Linear(64, 64))
    source = from_module(module, {"x": "float32[n,m,64]"})
    model = export_source(source)
    assert onnx_file.weight_bytes(model) == (64 * 64 + 64) * 4
    assert "Transpose" not in ops(model)
    assert_same_function(source, model, {"n": 2, "m": 3})


def test_the_graph_is_called_after_the_source_and_runs() -> None:
    source = from_module(nn.Identity(), {"x": "float32[n]"}, name="nothing")
    model = export_source(source)
    assert model.graph.name == "nothing"
    np.testing.assert_array_equal(run(model, {"x": np.arange(3, dtype=np.float32)})[0], [0, 1, 2])


@pytest.mark.slow
def test_outputs_are_called_as_asked_whatever_torch_calls_its_nodes() -> None:
    class Sentences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.mean = nn.Embedding(9, 4), nn.Linear(4, 4)

        def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
            tokens = self.table(ids)
            return {"embedding": self.mean(tokens.mean(1)), "linear": tokens.sum(1)}

    torch.manual_seed(0)
    module, inputs = Sentences().eval(), {"ids": "int64[batch,seq>=1]"}
    model = fx.export(module, inputs)
    assert [value.name for value in model.graph.outputs] == ["embedding", "linear"]
    assert fx.verify(model, module, inputs=inputs, runtimes=["ort-cpu"]).passed


@pytest.mark.slow
def test_the_graph_has_the_name_that_a_caller_gives() -> None:
    assert fx.export("d2l-ffn", name="my-block").graph.name == "my-block"


@pytest.mark.slow
def test_samples_may_be_tensors() -> None:
    samples = {"x": torch.ones(2, 3, 4, requires_grad=True)}
    assert shapes(fx.export(nn.Linear(4, 4), {"x": "float32[batch,seq,4]"}, samples=samples).graph.inputs) == {
        "x": "[batch,seq,4]"
    }
    half = {"x": torch.ones(2, 4, dtype=torch.bfloat16)}
    assert fx.export(nn.Linear(4, 4).bfloat16(), {"x": "bfloat16[n,4]"}, samples=half).graph.outputs[0].dtype == (
        ir.DataType.BFLOAT16
    )
