"""In float64 a module is told the limits of the dtype that it is written for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ffn_export import export, fuse, verify
from ffn_export.exporter.source import from_module
from ffn_export.parity.reference.dtype_limits import limits_of, working_dtype
from ffn_export.parity.reference.oracle import TorchOracle


class HeldAboveEpsilon(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x / (x.abs().sum(-1, keepdim=True) + torch.finfo(x.dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_oracle_adds_the_epsilon_of_the_module(dtype: torch.dtype) -> None:
    source = from_module(HeldAboveEpsilon().to(dtype), {"x": f"{str(dtype)[6:]}[batch,4]"})
    (y,) = TorchOracle(source).run({"x": np.zeros((1, 4), np.float32) + np.float32(2.0**-20)})
    expected = 2.0**-20 / (4 * 2.0**-20 + torch.finfo(dtype).eps)
    np.testing.assert_allclose(y, np.full((1, 4), expected), rtol=1e-12)
    assert torch.finfo(torch.float64).eps == 2.0**-52


class WithoutInfinities(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.nan_to_num(self.weight * x, posinf=0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_oracle_writes_the_lowest_number_of_the_dtype_for_minus_infinity(dtype: torch.dtype) -> None:
    source = from_module(WithoutInfinities().to(dtype), {"x": f"{str(dtype)[6:]}[batch,4]"})
    (y,) = TorchOracle(source).run({"x": np.array([[-np.inf, np.inf, np.nan, 1]], np.float32)})
    assert y.tolist() == [[torch.finfo(dtype).min, 0, 0, 1]]


class Attention(nn.Module):
    """Causal attention that hides keys as transformers does, by adding the lowest number of the dtype."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()[None] & (attention_mask[:, None] != 0)
        lowest = torch.finfo(x.dtype).min
        hidden = torch.where(seen, torch.zeros((), dtype=x.dtype), lowest)
        result: Tensor = self.out(torch.softmax(q @ k.transpose(-1, -2) / 4 + hidden, -1) @ v)
        return result


@pytest.mark.slow
def test_rows_that_see_no_key_are_judged_in_float16() -> None:
    inputs = {"x": "float16[batch,seq,16]", "attention_mask": "int64[batch,seq]"}
    module = Attention().half().eval()
    fused, _ = fuse(export(module, inputs))
    assert verify(fused, against=module, inputs=inputs, runtimes=["ort-cpu"]).passed
    other = Attention().half().eval()
    other.out.weight.data[0] *= 1.05
    assert not verify(fused, against=other, inputs=inputs, runtimes=["ort-cpu"]).passed


def test_each_thread_is_told_its_own() -> None:
    meet = Barrier(2)

    def asked(dtype: torch.dtype | None) -> tuple[float, float]:
        with limits_of(dtype):
            meet.wait()
            inside = torch.finfo(torch.float64).max
            meet.wait()
        return inside, torch.finfo(torch.float64).max

    with ThreadPoolExecutor(2) as pool:
        (half, after), (double, _) = pool.map(asked, [torch.float16, None])
    largest = torch.finfo(torch.float64).max
    assert (half, after, double) == (65504, largest, largest)


def test_other_questions_are_answered_as_ever() -> None:
    with limits_of(torch.float16):
        assert torch.finfo(torch.float32).max == torch.finfo(torch.float32).max > 65504
        assert torch.finfo().dtype == "float32"
        assert isinstance(torch.finfo(torch.float32), torch.finfo)
        with pytest.raises(TypeError):
            torch.finfo(torch.int64)


def test_the_dtype_of_most_numbers() -> None:
    mixed = nn.Sequential(nn.Linear(8, 8).half(), nn.LayerNorm(8))
    assert working_dtype(mixed) == torch.float16
    assert working_dtype(nn.ReLU()) is None
