"""Modules in half precision: what is in half, what stays in float32, and how far it is from the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn

import ffn_export as fx
from ffn_export.errors import UsageError
from ffn_export.exporter.precision import HALVES, HalfProduct, convert
from ffn_export.exporter.source import from_module, resolve
from ffn_export.modules.conv import ConvFeedForward
from ffn_export.parity.reference.oracle import TorchOracle

X = {"x": "float32[batch,seq,4]"}


def dtypes(model: ir.Model) -> tuple[str, str]:
    """Dtype of the input, and of the output."""
    value = (model.graph.inputs[0].dtype, model.graph.outputs[0].dtype)
    return tuple(str(dtype) for dtype in value)  # type: ignore[return-value]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
def test_weights_inputs_and_outputs_are_in_half(dtype: str) -> None:
    model = fx.export("d2l-ffn-addnorm", dtype=dtype)
    assert dtypes(model) == (dtype.upper(), dtype.upper())
    assert {str(v.dtype) for v in model.graph.initializers.values()} == {dtype.upper()}
    norm = next(node for node in model.graph if node.op_type == "LayerNormalization")
    assert norm.attributes.get_int("stash_type", 1) == ir.DataType.FLOAT.value


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
def test_kept_io_is_cast_at_the_border(dtype: str) -> None:
    model = fx.export("d2l-ffn", dtype=dtype, keep_io=True)
    assert dtypes(model) == ("FLOAT", "FLOAT")
    assert [node.op_type for node in model.graph] == ["Cast", "MatMul", "Add", "Relu", "MatMul", "Add", "Cast"]


@pytest.mark.slow
def test_mixed_has_its_products_in_half_and_the_rest_in_float32() -> None:
    model = fx.export("d2l-ffn-addnorm", dtype="mixed")
    assert dtypes(model) == ("FLOAT", "FLOAT")
    for node in model.graph:
        wanted = "FLOAT16" if node.op_type == "MatMul" else "FLOAT"
        if node.op_type != "Cast":
            assert {str(v.dtype) for v in node.inputs if v is not None} == {wanted}, node.op_type


@pytest.mark.slow
def test_mixed_keeps_what_stands_in_several_places_one_layer() -> None:
    torch.manual_seed(0)
    shared = nn.Linear(4, 4)
    inner = nn.Sequential(shared, nn.GELU())
    module = nn.Sequential(inner, shared, inner, nn.Sequential(shared)).eval()
    mixed = convert(from_module(module, X), "mixed").module
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(mixed(x), module(x), rtol=2e-3, atol=2e-3)
    assert len({id(each) for each in mixed.modules() if isinstance(each, HalfProduct)}) == 1
    model = fx.export(module, X, dtype="mixed")
    assert [node.op_type for node in model.graph].count("Add") == 4


@pytest.mark.slow
def test_mixed_leaves_a_layer_alone_that_attention_reads() -> None:
    module = Attention().eval()
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(convert(from_module(module, X), "mixed").module(x), module(x), rtol=2e-3, atol=2e-3)
    assert dtypes(fx.export(module, X, dtype="mixed")) == ("FLOAT", "FLOAT")


class Tied(nn.Module):
    """A table of embeddings that is the output's matrix too."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.norm = nn.LayerNorm(4)
        self.head, self.other = (nn.Linear(4, 7, bias=False) for _ in range(2))
        self.head.weight = self.other.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.table(ids))
        y: torch.Tensor = self.head(hidden) + self.other(hidden)
        return y


@pytest.mark.slow
def test_mixed_keeps_the_table_that_is_tied_to_a_product_in_float32() -> None:
    module, inputs = Tied().eval(), {"ids": "int64[batch,seq]"}
    mixed = convert(from_module(module, inputs), "mixed").module
    assert mixed.get_parameter("table.weight").dtype is torch.float32
    assert mixed.get_parameter("head.product.weight") is mixed.get_parameter("other.product.weight")
    model = fx.export(module, inputs, dtype="mixed")
    assert dtypes(model) == ("INT64", "FLOAT")
    assert fx.verify(model, module, inputs=inputs, dtype="mixed", runtimes=["ort-cpu"]).passed


@pytest.mark.slow
def test_mixed_reaches_the_layers_that_an_encoder_layer_computes_with_by_itself() -> None:
    """In evaluation mode it reads their weights and calls one fused operator."""
    torch.manual_seed(0)
    module = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    inputs = {"src": "float32[batch,seq,8]"}
    model = fx.export(module, inputs, dtype="mixed")
    halves = [v for v in model.graph.initializers.values() if v.dtype == ir.DataType.FLOAT16]
    assert {tuple(value.shape or ()) for value in halves} == {(8, 16), (16, 8)}
    assert fx.verify(model, module, inputs=inputs, dtype="mixed", runtimes=["ort-cpu"]).passed


def test_complex_buffers_stay_complex() -> None:
    class Rotated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.turns: torch.Tensor
            self.register_buffer("turns", torch.polar(torch.ones(2), torch.tensor([0.3, 1.2])))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], 2, 2))
            return torch.view_as_real(pairs * self.turns).flatten(-2).to(x.dtype)

    module = Rotated().eval()
    half = convert(from_module(module, X), "float16").module
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(half(x.half()).float(), module(x), rtol=2e-3, atol=2e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_a_module_that_keeps_a_tensor_with_a_gradient_is_copied() -> None:
    module = torch.nn.utils.weight_norm(nn.Linear(4, 4))
    model = fx.export(module, {"input": "float32[n,4]"}, dtype="float16")
    assert dtypes(model) == ("FLOAT16", "FLOAT16")
    assert dtypes(fx.export(module, {"input": "float32[n,4]"}, dtype="mixed")) == ("FLOAT", "FLOAT")
    assert module.weight.requires_grad
    assert fx.verify(fx.export(module, {"input": "float32[n,4]"}), module).passed


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.after = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.after(self.attention(x, x, x, need_weights=False)[0])
        return y


@pytest.mark.slow
def test_mixed_convolutions_add_their_bias_to_the_channels() -> None:
    module = ConvFeedForward(16, 32, "gelu").eval()
    inputs = {"x": "float32[batch,seq,16]"}
    mixed = convert(from_module(module, inputs), "mixed").module
    result = fx.verify(fx.export(module, inputs, dtype="mixed"), mixed)
    assert result.passed, result.failures[:3]


@pytest.mark.slow
def test_the_statistics_of_an_rms_norm_stay_in_float32() -> None:
    model = fx.export("t5-ffn", dtype="float16")
    assert {str(n.outputs[0].dtype) for n in model.graph if n.op_type in ("ReduceMean", "Sqrt", "Reciprocal")} == {
        "FLOAT"
    }


def test_the_callers_module_stays_in_float32() -> None:
    module = nn.Linear(4, 4)
    for dtype in (*HALVES, "mixed"):
        convert(from_module(module, X), dtype)
    assert module.weight.dtype is torch.float32
    assert module.bias is not None


@pytest.mark.parametrize("dtype", [*HALVES, "mixed"])
def test_the_oracle_is_the_converted_module_without_its_rounding(dtype: str) -> None:
    source = convert(resolve("d2l-ffn"), dtype, keep_io=True)
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    (y,) = TorchOracle(source).run({"x": x})
    half = torch.float16 if dtype == "mixed" else HALVES[dtype]
    weights = [p.detach().double().numpy() for p in resolve("d2l-ffn").module.to(half).parameters()]
    if dtype == "mixed":  # biases are not part of a product
        weights[1::2] = [p.detach().double().numpy() for p in list(resolve("d2l-ffn").module.parameters())[1::2]]
    hidden = np.maximum(x.astype(np.float64) @ weights[0].T + weights[1], 0)
    assert np.abs(y - (hidden @ weights[2].T + weights[3])).max() < 1e-12


def test_unknown_precisions_and_fixed_programs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'float16'"):
        fx.export("d2l-ffn", dtype="flaot16")
    torch.export.save(torch.export.export(nn.Linear(4, 4), (torch.ones(2, 4),)), tmp_path / "m.pt2")
    with pytest.raises(UsageError, match="its dtypes are fixed"):
        fx.export(str(tmp_path / "m.pt2"), dtype="float16", trust=True)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "mixed"])
def test_a_bundle_remembers_its_precision(dtype: str, tmp_path: Path) -> None:
    built = fx.build("d2l-ffn", directory=tmp_path, dtype=dtype, bench_budget=0)
    assert built.manifest is not None
    assert built.manifest.source["dtype"] == dtype
    assert fx.verify(built.directory).passed
