from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from ffn_export import verify
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module
from tests.exporter.helpers import assert_same_function, module_of, ops, run

BATCHED = {"input": "float32[batch,4,length]"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv1d(4, 6, 1),
        nn.Conv1d(4, 6, 1, bias=False),
        nn.Conv1d(4, 6, 1, dilation=3),  # means nothing for one tap
        weight_norm(nn.Conv1d(4, 6, 1)),
    ],
)
def test_a_kernel_of_1_is_a_matrix_product(conv: nn.Module) -> None:
    source = from_module(conv, BATCHED)
    model = export_source(source)
    assert "MatMul" in ops(model)
    assert "Conv" not in ops(model)
    assert_same_function(source, model, *({"batch": b, "length": n} for b, n in ((1, 1), (3, 5), (0, 2))))
    # Neither torch's convolution nor ONNX Runtime's takes an empty sequence, a matrix product does.
    assert run(model, {"input": np.zeros((2, 4, 0), np.float32)})[0].shape == (2, 6, 0)


def test_infinity_passes_the_clip_of_another_operator() -> None:
    """Torch's exporter writes a lower bound alone, for which ONNX Runtime makes infinity the largest number."""
    module = module_of(lambda self, x: F.cosine_similarity(x, x + 1, dim=-1))
    model = export_source(from_module(module, {"x": "float32[rows,4]"}))
    x = np.array([[np.inf, 1, 2, 3], [1, 2, 3, 4]], np.float32)
    (result,) = run(model, {"x": x})
    assert np.isnan(result).tolist() == [True, False]


def test_an_axis_that_is_1_in_the_trace_stays_symbolic() -> None:
    """At its least length, the convolution before the one of kernel 1 leaves a single place."""
    source = from_module(nn.Sequential(nn.Conv1d(4, 6, 3), nn.Conv1d(6, 5, 1)), {"input": "float32[batch,4,length>=3]"})
    model = export_source(source)
    assert [str(value.shape) for value in model.graph.outputs] == ["[batch,5,length - 2]"]
    assert_same_function(source, model, *({"batch": 2, "length": length} for length in (3, 4, 9)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv1d(4, 6, 3, padding=1),
        nn.Conv1d(4, 6, 1, stride=2),
        nn.Conv1d(4, 6, 1, padding=1),
        nn.Conv1d(4, 6, 1, padding="same"),
        nn.Conv1d(4, 6, 1, groups=2),
    ],
    ids=["kernel 3", "stride 2", "padding 1", "padding same", "groups 2"],
)
def test_any_other_stays_a_convolution(conv: nn.Module) -> None:
    source = from_module(conv, BATCHED)
    model = export_source(source)
    assert ops(model) == ["Conv"]
    assert_same_function(source, model, {"batch": 1, "length": 1}, {"batch": 3, "length": 6})


@pytest.mark.slow
def test_without_a_batch_axis() -> None:
    source = from_module(nn.Conv1d(4, 6, 1), {"input": "float32[4,length]"})
    model = export_source(source)
    assert "Conv" not in ops(model)
    assert_same_function(source, model, {"length": 1}, {"length": 5})


@pytest.mark.slow
def test_only_the_kernel_of_1_is_rewritten_and_the_rest_keeps_its_operators() -> None:
    module = nn.Sequential(nn.Conv1d(4, 6, 1), nn.GELU(), nn.Conv1d(6, 4, 3, padding=1), nn.LayerNorm(8))
    source = from_module(module, {"input": "float32[batch,4,8]"})
    model = export_source(source)
    assert [op for op in ops(model) if op not in ("Transpose", "Add")] == [
        "MatMul",
        "Gelu",
        "Conv",
        "LayerNormalization",
    ]
    assert_same_function(source, model, {"batch": 1}, {"batch": 3})


@pytest.mark.slow
def test_beside_integer_inputs_and_keywords() -> None:
    module = module_of(
        lambda self, ids, *, x: self.conv(x) + self.table(ids).mT, conv=nn.Conv1d(4, 6, 1), table=nn.Embedding(7, 6)
    )
    source = from_module(module, {"x": "float32[b,4,n]", "ids": "int64[b,n]"})
    assert_same_function(source, export_source(source), {"b": 1, "n": 1}, {"b": 2, "n": 5})


@pytest.mark.slow
def test_in_another_precision() -> None:
    source = from_module(nn.Conv1d(4, 6, 1).double(), {"input": "float64[b,4,n]"})
    assert_same_function(source, export_source(source), {"b": 2, "n": 5}, tolerance=1e-12)
    assert source.module.weight.dtype is torch.float64


@pytest.mark.slow
def test_the_logarithm_of_a_sigmoid_far_below_zero() -> None:
    module = module_of(lambda self, x: F.logsigmoid(x * 100))
    inputs = {"x": "float32[b,8]"}
    model = export_source(from_module(module, inputs))
    assert "Softplus" in ops(model)
    assert verify(model, against=module, inputs=inputs, runtimes=["ort-cpu"]).failures == ()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_logarithm_of_a_sum_of_exponentials_beyond_the_largest_exponential(dtype: str) -> None:
    module = module_of(lambda self, x: (torch.logaddexp(x * 100, x.flip(-1)), torch.logaddexp2(x, x * 3)))
    inputs = {"x": f"{dtype}[b,8]"}
    model = export_source(from_module(module, inputs))
    assert verify(model, against=module, inputs=inputs, runtimes=["ort-cpu"]).failures == ()
    x = torch.tensor([[math.inf, -math.inf, math.nan, 3, -math.inf, 0, -math.inf, math.inf]]).to(getattr(torch, dtype))
    for found, right in zip(run(model, {"x": x.numpy()}), module(x), strict=True):
        np.testing.assert_allclose(found, right.numpy(), rtol=2e-3 if dtype == "float16" else 1e-6)


class InAPart(nn.Module):
    """Attention in a part of the program, as autocast makes one; the mask is made outside."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = torch.where(mask[:, None, None, :], 0.0, -math.inf).to(x.dtype)
        with torch.autocast("cpu", enabled=False):
            return F.scaled_dot_product_attention(x, x, x, attn_mask=hidden)


def test_a_row_without_keys_is_that_of_pytorch_in_a_part_of_the_program_too() -> None:
    source = from_module(InAPart().eval(), {"x": "float32[batch,2,seq,8]", "mask": "bool[batch,seq]"})
    model = export_source(source)
    x, mask = np.ones((2, 2, 3, 8), np.float32), np.array([[True, False, True], [False] * 3])
    (found,) = run(model, {"x": x, "mask": mask})
    np.testing.assert_allclose(found, source.module(torch.tensor(x), torch.tensor(mask)).numpy(), rtol=1e-6)


@pytest.mark.parametrize(("dtype", "epsilon"), [("float32", 1e-3), ("float16", 1e-3), ("float32", 0.7)])
def test_a_logit_is_that_of_pytorch_for_any_epsilon_and_of_nan(dtype: str, epsilon: float) -> None:
    module = module_of(lambda self, x: torch.logit(x.sigmoid(), eps=epsilon))
    inputs = {"x": f"{dtype}[b,8]"}
    model = export_source(from_module(module, inputs))
    assert verify(model, against=module, inputs=inputs, runtimes=["ort-cpu"]).failures == ()


@pytest.mark.parametrize(
    ("function", "operators"),
    [
        (lambda x: x.softmax(-1, dtype=torch.float32), ["Cast", "Softmax"]),
        (lambda x: torch.special.softmax(x, -1, dtype=torch.float32), ["Cast", "Softmax"]),
        (lambda x: F.log_softmax(x, -1, dtype=torch.float32), ["Cast", "LogSoftmax"]),
        (lambda x: torch.special.log_softmax(x, -1, dtype=torch.float32), ["Cast", "LogSoftmax"]),
        (lambda x: x.mean(-1, keepdim=True, dtype=torch.float32), ["Cast", "ReduceMean"]),
        (lambda x: x.mean(dtype=torch.float32), ["Cast", "ReduceMean", "Squeeze"]),
        (lambda x: x.softmax(-1), ["Softmax"]),
        (lambda x: x.softmax(-1, dtype=torch.float16), ["Softmax"]),
    ],
)
def test_a_dtype_is_that_of_the_computation(
    function: Callable[[torch.Tensor], torch.Tensor], operators: list[str]
) -> None:
    """Torch's exporter casts the result."""
    source = from_module(module_of(lambda self, x: function(x)), {"x": "float16[rows,8]"})
    model = export_source(source)
    assert ops(model) == operators
    assert_same_function(source, model, {"rows": 3}, tolerance=1e-3)


def test_it_stays_as_it_is_where_there_is_no_kernel() -> None:
    source = from_module(module_of(lambda self, x: F.logsigmoid(x)), {"x": "float64[b,8]"})
    model = export_source(source)
    assert ops(model) == ["Sigmoid", "Log"]
    assert_same_function(source, model, {"b": 5}, tolerance=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_clamp_with_one_bound_keeps_infinity(dtype: str) -> None:
    def clamped(self: nn.Module | None, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        whole = x.clamp(min=0.5), x.clamp(max=0.5), x.clamp(-1, 1), torch.clamp_min(x, 0.1), torch.clamp_max(x, 0.1)
        return *whole, x.to(torch.int64).clamp(min=2)

    source = from_module(module_of(clamped), {"x": f"{dtype}[n]"})
    model = export_source(source)
    x = np.array([np.inf, -np.inf, np.nan, 0.3, 7.0], dtype)
    expected = [each.numpy() for each in clamped(None, torch.from_numpy(x))]
    for found, right in zip(run(model, {"x": x})[:-1], expected[:-1], strict=True):
        np.testing.assert_array_equal(found, right)
    assert_same_function(source, model, {"n": 0}, {"n": 5})


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_an_axis_of_repeated_elements_beside_empty_ones(dim: int) -> None:
    source = from_module(module_of(lambda self, x: x.repeat_interleave(3, dim)), {"x": "float32[batch,2,seq,4]"})
    assert_same_function(source, export_source(source), *({"batch": b, "seq": s} for b, s in ((2, 0), (0, 3), (2, 5))))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bool", "int64", "float32"])
@pytest.mark.parametrize(
    "reduce",
    [
        lambda x: x.any(-1),
        lambda x: x.any(0, keepdim=True),
        lambda x: x.any(),
        lambda x: torch.any(x, dim=(0, 1)),
        lambda x: x.all(-1),
        lambda x: torch.all(x, dim=(0, 1), keepdim=True),
    ],
)
def test_any_and_all_over_nothing(reduce: Callable[[torch.Tensor], torch.Tensor], dtype: str) -> None:
    source = from_module(module_of(lambda self, x: reduce(x)), {"x": f"{dtype}[batch,seq]"})
    assert_same_function(source, export_source(source), *({"batch": b, "seq": s} for b, s in ((3, 0), (0, 2), (3, 5))))
