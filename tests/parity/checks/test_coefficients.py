"""An activation with another coefficient is named, also where no output of its dtype shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ffn_export import export, fuse, verify
from ffn_export.exporter.source import from_module
from ffn_export.parity.cases.case import sweep
from ffn_export.parity.checks.coefficients import differences
from ffn_export.parity.reference.module_trace import watch
from tests.exporter.helpers import module_of

WIDTH = 16


def found(model: ir.Model, module: nn.Module, dtype: str = "float32") -> tuple[str, ...]:
    source = from_module(module, {"x": f"{dtype}[1<=batch,{WIDTH}]"})
    return differences(model, watch(source, sweep(source.inputs)[0].feeds(source.inputs)))


def fused(module: nn.Module, dtype: str = "float32") -> ir.Model:
    return fuse(export(module, {"x": f"{dtype}[1<=batch,{WIDTH}]"}), "ort-cpu")[0]


def bent(model: ir.Model, factor: float) -> ir.Model:
    for node in model.graph:
        if "alpha" in node.attributes:
            node.attributes["alpha"] = ir.AttrFloat32("alpha", factor * node.attributes.get_float("alpha"))
    return model


@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: F.silu(x),
        lambda self, x: x * torch.sigmoid(1.702 * x),
        lambda self, x: x * torch.sigmoid(x * 3),
        lambda self, x: x * torch.sigmoid(x / 3),
        lambda self, x: x * torch.sigmoid(0.7 * (0.3 * x)),
        lambda self, x: x * torch.sigmoid(0.5 * (1.1 * (1.3 * x))),
        lambda self, x: x * torch.sigmoid(3 * x / 7),
        lambda self, x: 0.5 * x * (1 + torch.tanh(0.85 * x)),
        lambda self, x: x * torch.sigmoid(self.beta * x),
        lambda self, x: F.leaky_relu(x, 0.07) + F.leaky_relu(x),
        lambda self, x: torch.where(x > 0, x, 0.07 * x) + torch.maximum(x, 0.03 * x),
        lambda self, x: F.elu(x, 0.3) + F.celu(x, 0.7) + F.elu(x),
        lambda self, x: F.elu(x, 3) + F.celu(x, 3) + F.leaky_relu(x, 3),
        lambda self, x: x * torch.sigmoid(x + x + x),
        lambda self, x: x * torch.sigmoid(1.702 * x + 0.3 * x),
    ],
)
def test_the_module_s_own_are_right(forward: Callable[..., Any]) -> None:
    module = module_of(forward, beta=nn.Parameter(torch.tensor([1.3]))).half()
    assert found(fused(module, "float16"), module, "float16") == ()


def test_outputs_in_float32_tell() -> None:
    module = module_of(lambda self, x: F.silu(x))
    assert found(bent(fused(module), 1.01), module) == ()


@pytest.mark.parametrize(
    "activation", [F.silu, lambda x: x * torch.sigmoid(1.702 * x), lambda x: F.leaky_relu(x, 0.07)]
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_another_is_named(activation: Callable[[Tensor], Tensor], dtype: str) -> None:
    module = module_of(lambda self, x: activation(x)).to(getattr(torch, dtype))
    (line,) = found(bent(fused(module, dtype), 1.01), module, dtype)
    assert "PyTorch computes with" in line


def test_it_fails_in_half_precision() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(WIDTH, 32), nn.SiLU(), nn.Linear(32, WIDTH)).half().eval()
    inputs = {"input": f"float16[1<=batch,{WIDTH}]"}
    model, _ = fuse(export(module, inputs), "ort-cpu")
    asked: dict[str, Any] = {"against": module, "inputs": inputs, "runtimes": ["ort-cpu"], "fast": True}
    assert verify(model, **asked).passed
    assert not verify(bent(model, 1.01), **asked).passed
