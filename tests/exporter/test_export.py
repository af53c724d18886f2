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
from ffn_export.errors import ExportError
from ffn_export.exporter import onnx_file
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module, resolve, with_samples
from tests.exporter.helpers import X, assert_same_function, exported, module_of, ops, refusal, run, shapes

ROOT = Path(__file__).parents[2]


def refused(module: nn.Module, inputs: Any = None, opset: int = 20) -> str:
    return refusal(ExportError, exported, module, inputs or X, opset)


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


def test_axes_that_are_computed_from_others_are_written_in_their_names() -> None:
    model = exported(module_of(lambda self, x: (torch.cat([x, x], 1), x.flatten(0, 1))), X)
    assert shapes(model.graph.outputs) == {"output_0": "[batch,2*seq,4]", "output_1": "[seq*batch,4]"}


def test_names_that_are_torchs_own_symbols() -> None:
    # torch calls the axes of x s77 and s27: swapped, a renaming one after the other would mix them up.
    model = exported(module_of(lambda self, x: torch.cat([x, x], 1)), {"x": "float32[s27,s77,4]"})
    assert shapes(model.graph.outputs) == {"y": "[s27,2*s77,4]"}


def test_one_name_on_two_axes_and_static_axes_of_any_size() -> None:
    source = from_module(module_of(lambda self, x: x @ x), {"x": "float32[n,n]"})
    assert_same_function(source, export_source(source), {"n": 1}, {"n": 7})
    for size in (0, 1):
        model = exported(nn.ReLU(), {"x": f"float32[{size},seq,4]"})
        assert shapes(model.graph.outputs) == {"y": f"[{size},seq,4]"}


def test_bounds_of_1_trace_at_1_and_stay_symbolic() -> None:
    model = exported(nn.Linear(4, 4), {"x": "float32[a<=1,b<=1,4]"})
    assert shapes(model.graph.outputs) == {"y": "[a,b,4]"}


@pytest.mark.parametrize("opset", [18, 20, 23])
def test_the_opset_is_the_one_asked_for(opset: int) -> None:
    model = exported(nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.RMSNorm(4)), {"x": "float32[n,4]"}, opset)
    assert model.opset_imports == {"": opset}
    assert ("Gelu" in ops(model)) == (opset >= 20)
    assert ("RMSNormalization" in ops(model)) == (opset >= 23)


@pytest.mark.parametrize("opset", [-1, 0, 17, 99])
def test_an_opset_that_cannot_be_had(opset: int, capfd: pytest.CaptureFixture[str]) -> None:
    message = refused(nn.Linear(4, 4), {"x": "float32[n,4]"}, opset)
    assert f"opset {opset} cannot be had from torch's exporter" in message
    assert "use --opset 18 to " in message
    assert capfd.readouterr() == ("", "")


def test_an_opset_that_cannot_be_had_for_this_module(capfd: pytest.CaptureFixture[str]) -> None:
    # Past 25, torch writes 18 and converts, which fails for this module with no more than a log line.
    message = refused(nn.RMSNorm(4), {"x": "float32[n,4]"}, 26)
    assert message == "opset 26 cannot be had for this module, torch's exporter stayed at 18: use a lower --opset"
    assert capfd.readouterr() == ("", "")


# --- sizes that the module does not take, or takes another way ----------------------------------------


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (lambda self, x: x.reshape(2, 3, 4), "axis 'batch' of input 'x' is specialised to 2"),
        (lambda self, x: x * float(x.shape[1]), "axis 'seq' of input 'x' is specialised to 3"),
        (lambda self, *x: x[0].reshape(2, 3, 4), "axis 'batch' of input 'x' is specialised to 2"),
        (lambda self, **x: x["x"].expand(2, 3, 4), "axis 'batch' of input 'x' is specialised to 2"),
    ],
)
def test_a_specialised_axis(forward: Callable[..., Any], words: str) -> None:
    message = refused(module_of(forward))
    assert words in message
    assert "instead of the name in --input, or take the size from the input in forward" in message


@pytest.mark.parametrize(
    ("forward", "bound"),
    [
        (lambda self, x: x + 1 if x.shape[1] > 2 else x - 1, "3<=seq"),
        (lambda self, x: x + 1 if x.shape[1] > 100 else x - 1, "seq<=100"),
        (lambda self, x: x + 1 if x.shape[1] > 1 else x - 1, "2<=seq"),
        (lambda self, x: x + 1 if 2 * x.shape[1] + 1 < 64 else x - 1, "seq<=31"),
        # Tables of positions: sliced, looked up, and looked up with an offset.
        (lambda self, x: x + self.table.weight[: x.shape[1]], "seq<=16"),
        (lambda self, x: x + self.table(torch.arange(16)[None, : x.shape[1]]), "seq<=16"),
        (lambda self, x: x + self.table(torch.arange(x.shape[1])), "seq<=16"),
        (lambda self, x: x + self.table(torch.arange(x.shape[1]).unsqueeze(0).expand(2, -1)[:1] + 2), "seq<=14"),
        (lambda self, x: x + self.table(torch.arange(2, x.shape[1] + 2)), "seq<=14"),
    ],
)
def test_a_bound_is_said(forward: Callable[..., Any], bound: str) -> None:
    module = module_of(forward, table=nn.Embedding(16, 4))
    assert refused(module) == (
        f"the module, as torch.export traced it, bounds axis 'seq': write {bound} for it in --input, "
        "or take branches on the size out of forward"
    )


def test_a_layer_that_forward_converts_is_named() -> None:
    """Routers of experts do so; PyTorch would give each parameter new contents in the trace."""
    module = module_of(lambda self, x: self.router.to(torch.float32)(x), router=nn.Linear(4, 4))
    assert "forward converts a Linear with .to(...)" in refused(module)


@pytest.mark.parametrize(
    ("forward", "bound", "sizes"),
    [
        (lambda self, x: x + 1 if x.shape[1] > 2 else x - 1, "3<=seq", (3, 50)),
        (lambda self, x: x + self.table.weight[: x.shape[1]], "seq<=16", (0, 1, 16)),
        (lambda self, x: x + self.table(torch.arange(x.shape[1])), "seq<=16", (0, 1, 16)),
    ],
)
def test_with_the_bound_that_is_said_it_exports(
    forward: Callable[..., Any], bound: str, sizes: tuple[int, ...]
) -> None:
    source = from_module(module_of(forward, table=nn.Embedding(16, 4)), {"x": f"float32[batch,{bound},4]"})
    assert_same_function(source, export_source(source), *({"batch": 2, "seq": size} for size in sizes))


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (
            lambda self, x: x + 1 if x.shape[1] != 5 else x - 1,
            "at seq=5 than the graph, which holds only where seq !=",
        ),
        (
            lambda self, x: x + 1 if x.shape[1] % 2 else x - 1,
            "at seq=2 than the graph, which holds only where (seq %",
        ),
        (lambda self, x: x + 1 if x.shape[1] > x.shape[0] else x, "at seq=2, batch=2 than"),
        (lambda self, x: x + 1 if x.shape[0] * x.shape[1] > 10 else x - 1, "holds only where seq*batch <= 10"),
        (
            lambda self, x: x + 1 if x.shape[1] == 1 else x - 1,
            "at seq=1 than the graph, which holds only where seq !=",
        ),
    ],
)
def test_a_branch_on_sizes_that_no_bound_describes(forward: Callable[..., Any], words: str) -> None:
    message = refused(module_of(forward))
    assert "forward takes another branch " in message
    assert words in message
    assert "write one function for all sizes" in message


def test_a_branch_is_refused_in_a_module_with_pointwise_convolutions_too() -> None:
    module = module_of(lambda self, x: self.conv(x) * (1 if x.shape[2] % 2 else 2), conv=nn.Conv1d(4, 4, 1))
    assert "holds only where (seq % 2) != 0" in refused(module, {"x": "float32[batch,4,seq]"})


def test_sizes_that_the_module_itself_refuses_do_not_stop_an_export() -> None:
    source = from_module(module_of(lambda self, x: x.view(x.shape[0] // 2, 2, -1)), X)
    assert_same_function(source, export_source(source), {"batch": 4, "seq": 1}, {"batch": 2, "seq": 5})


def test_axes_that_have_to_be_equal() -> None:
    inputs = {"x": "float32[n,4]", "y": "float32[m,4]", "z": "float32[k]"}
    message = refused(module_of(lambda self, x, y, z: (x + y, z)), inputs)
    assert "forward failed on x:float32[2, 4], y:float32[3, 4]" in message
    assert "it works where 'n' and 'm' are equal: give them one name in --input" in message


def test_axes_of_one_size_that_have_to_be_equal() -> None:
    # Both can only be traced at 2, so forward itself has nothing to say.
    inputs = {"x": "float32[1<=n<=2,4]", "y": "float32[1<=m<=2,4]"}
    assert "ties axis 'm' to 'n': give both one name in --input" in refused(module_of(lambda self, x, y: x * y), inputs)


def test_axes_that_only_have_to_be_even_are_not_taken_for_equal() -> None:
    message = refused(module_of(lambda self, x: x.view(x.shape[0], x.shape[1] // 2, 2, 4)))
    assert "forward failed on x:float32[2, 3, 4]" in message
    assert "equal" not in message


# --- what cannot be a graph ---------------------------------------------------------------------------


def raising(self: nn.Module, x: Tensor) -> Tensor:
    raise ValueError("the first line\nthe second line")


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (raising, "forward failed on x:float32[2, 3, 4]: ValueError: the first line"),
        (
            lambda self, x: x + 1 if x.sum() > 0 else x - 1,
            "decides by the values of a tensor (test_export.py, line",
        ),
        (lambda self, x: x[:, : int(x.abs().sum())], "use torch.where or torch.cond"),
        (lambda self, x: torch.from_numpy(x.numpy()), "torch.export cannot trace the module: "),
        (lambda self, x: torch.linalg.svd(x)[0], "torch.onnx cannot translate aten._linalg_svd.default to opset 20: "),
        (lambda self, x: (x, x.shape[0]), "forward returns int at '1'"),
        (lambda self, x: None, "forward returns no tensor"),
    ],
)
def test_what_forward_does_is_named(forward: Callable[..., Any], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert words in refused(module_of(forward))
    assert capfd.readouterr() == ("", "")


def test_sizes_that_fit_for_some_only_are_named_as_axes() -> None:
    message = refused(module_of(lambda self, x: sum(x.chunk(2, 1))), {"x": "float32[batch,seq,4]"})
    assert "must match the size of tensor" in message
    assert "the size of axis 'batch' or 'seq'; if forward takes some sizes only, fix one in --input" in message


@pytest.mark.filterwarnings("ignore:.*quantized:UserWarning", "ignore:.*torch.ao.quantization:DeprecationWarning")
def test_layers_that_pytorch_has_quantized_are_named() -> None:
    quantized = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear}, dtype=torch.qint8)  # type: ignore[no-untyped-call]
    message = refused(quantized, {"x": "float32[n,4]"})
    assert "the module holds layers that PyTorch has quantized, which cannot be traced" in message
    assert "`ffn-export quantize`" in message


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_an_encoder_that_drops_padded_tokens_is_told_how_not_to() -> None:
    def encoder(*, nested: bool) -> nn.Module:
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        return module_of(
            lambda self, x, mask: self.encoder(x, src_key_padding_mask=mask),
            encoder=nn.TransformerEncoder(layer, 1, enable_nested_tensor=nested),
        ).eval()

    inputs = {"x": "float32[batch,seq,16]", "mask": "bool[batch,seq]"}
    assert "make it with enable_nested_tensor=False" in refused(encoder(nested=True), inputs)
    assert "Softmax" in ops(exported(encoder(nested=False), inputs))


def test_a_wrong_dtype_or_width() -> None:
    assert "forward failed on x:float64[2, 4]: RuntimeError" in refused(nn.Linear(4, 4), {"x": "float64[n,4]"})
    assert "forward failed on x:float32[2, 5]: RuntimeError" in refused(nn.Linear(4, 4), {"x": "float32[n,5]"})


# --- training mode ------------------------------------------------------------------------------------


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
        "x_out": "[batch,seq,4]", "same": "[batch,seq,4]", "input": "[batch,seq,4]", "constant": "[3]",
        "list_0": "[batch,seq,4]", "list_1_0": "[batch,4]",
    }  # fmt: skip
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


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 1e-2), ("float64", 1e-12)])
def test_modules_of_other_precision(dtype: str, tolerance: float) -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).to(getattr(torch, dtype))
    source = from_module(module, {"x": f"{dtype}[n,4]"})
    model = export_source(source)
    assert {str(value.dtype).lower() for value in (*model.graph.inputs, *model.graph.outputs)} == {
        dtype.replace("float64", "double")
    }
    assert_same_function(source, model, {"n": 5}, tolerance=tolerance)


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
from ffn_export.exporter import onnx_file
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


@pytest.mark.slow
def test_the_same_bytes_from_another_directory_and_process(tmp_path: Path) -> None:
    files = []
    for place, hash_seed in (("one", "0"), ("another/place", "12345")):
        directory = tmp_path / place
        directory.mkdir(parents=True)
        (directory / "model_code.py").write_text(_MODEL_CODE)
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", _EXPORT, "model.onnx"]
        subprocess.run(command, cwd=directory, env=environment, check=True, timeout=120)
        files.append((directory / "model.onnx").read_bytes())
    assert files[0] == files[1]
    for path in (tmp_path, ROOT, Path(sys.prefix), Path(torch.__file__).parent, Path.home()):
        assert str(path).encode() not in files[0]


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


def test_outputs_are_called_as_asked_whatever_torch_calls_its_nodes() -> None:
    class Sentences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.mean = nn.Embedding(9, 4), nn.Linear(4, 4)

        def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
            tokens = self.table(ids)
            return {"embedding": self.mean(tokens.mean(1)), "linear": tokens.sum(1)}

    module, inputs = Sentences().eval(), {"ids": "int64[batch,seq>=1]"}
    model = fx.export(module, inputs)
    assert [value.name for value in model.graph.outputs] == ["embedding", "linear"]
    assert fx.verify(model, module, inputs=inputs, runtimes=["ort-cpu"]).passed


def test_the_graph_has_the_name_that_a_caller_gives() -> None:
    assert fx.export("d2l-ffn", name="my-block").graph.name == "my-block"


def test_samples_may_be_tensors() -> None:
    samples = {"x": torch.ones(2, 3, 4, requires_grad=True)}
    assert shapes(fx.export(nn.Linear(4, 4), {"x": "float32[batch,seq,4]"}, samples=samples).graph.inputs) == {
        "x": "[batch,seq,4]"
    }
    half = {"x": torch.ones(2, 4, dtype=torch.bfloat16)}
    assert fx.export(nn.Linear(4, 4).bfloat16(), {"x": "bfloat16[n,4]"}, samples=half).graph.outputs[0].dtype == (
        ir.DataType.BFLOAT16
    )
