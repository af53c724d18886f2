"""What a module makes of its own weights as it runs is what a graph has to hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ffn_export import export, verify
from ffn_export.exporter.source import from_module
from ffn_export.parity.cases.case import sweep
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.reference.module_trace import watch
from tests.exporter.helpers import module_of

INPUTS = {"x": "float32[1<=batch,16]"}


def autocast(self: Any, x: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.float16):
        return x + self.linear(x).float()


def fake_quantised(self: Any, x: Tensor) -> Tensor:
    scale = self.linear.weight.abs().amax(1, keepdim=True) / 127
    return F.linear(x, (self.linear.weight / scale).round() * scale, self.linear.bias)


def through_bfloat16(self: Any, x: Tensor) -> Tensor:
    return F.linear(x, self.linear.weight.bfloat16().float(), self.linear.bias)


FORWARDS = [autocast, fake_quantised, through_bfloat16]


def judged(module: nn.Module, wrong: Callable[[ir.Model], None] = lambda model: None) -> ParityResult:
    model = export(module, INPUTS)
    wrong(model)
    return verify(model, against=module, inputs=INPUTS, runtimes=["ort-cpu"])


def scale_one_weight(model: ir.Model) -> None:
    value = next(v for v in model.graph.initializers.values() if v.shape is not None and len(v.shape) == 2)
    assert value.const_value is not None
    array = value.const_value.numpy().copy()
    array[3, 5] *= 1.01
    value.const_value = ir.tensor(array, name=value.name)


@pytest.mark.slow
@pytest.mark.parametrize("forward", FORWARDS)
def test_a_module_that_rounds_its_weights_passes(forward: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    result = judged(module_of(forward, linear=nn.Linear(16, 16)))
    assert result.passed, result.failures


@pytest.mark.slow
@pytest.mark.parametrize("forward", FORWARDS)
def test_a_wrong_weight_of_it_fails(forward: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    result = judged(module_of(forward, linear=nn.Linear(16, 16)), scale_one_weight)
    assert not result.passed
    assert any(weight.differing == 1 for weight in result.weights)


def test_a_module_that_does_not_round_them_is_held_to_them() -> None:
    def rounded(model: ir.Model) -> None:
        for value in model.graph.initializers.values():
            if value.const_value is not None and value.const_value.dtype == ir.DataType.FLOAT:
                array = torch.from_numpy(value.const_value.numpy().copy()).half().float().numpy()
                value.const_value = ir.tensor(array, name=value.name)

    assert not judged(module_of(lambda self, x: self.linear(x), linear=nn.Linear(16, 16)), rounded).passed


@pytest.mark.parametrize(("number", "passes"), [(4.4721, True), (2.0, False)])
def test_a_number_that_half_precision_rounds_moves_a_weight_by_a_rounding(number: float, passes: bool) -> None:
    """PyTorch multiplies by the number, and the graph by what float16 holds of it."""
    torch.manual_seed(0)
    module = module_of(lambda self, x: F.linear(x, self.linear.weight * number), linear=nn.Linear(16, 16, bias=False))
    model = export(module, INPUTS, dtype="float16")
    (value,) = (each for each in model.graph.initializers.values() if each.shape == (16, 16))
    assert value.const_value is not None
    for factor in (1.0, 1.001, 1.01):  # one rounding, and ten
        array = value.const_value.numpy().copy()
        array.reshape(-1)[np.abs(array).argmax()] *= np.float16(factor)
        value.const_value = ir.tensor(array, name=value.name)
        result = verify(model, against=module, inputs=INPUTS, runtimes=["ort-cpu"], dtype="float16")
        wrong = sum(weight.differing for weight in result.weights)
        assert wrong == (0 if factor == 1.0 or (passes and factor < 1.01) else 1)
        assert result.passed == (wrong == 0)


def test_only_what_is_made_of_weights_alone() -> None:
    module = module_of(
        lambda self, x: (self.linear.weight * 2) @ x.T + (x * self.linear.bias).T, linear=nn.Linear(16, 16)
    )
    source = from_module(module, INPUTS)
    watched = watch(source, sweep(source.inputs)[0].feeds(source.inputs))
    assert list(watched.weights) == ["mul(linear.weight)"]
    assert torch.equal(watched.weights["mul(linear.weight)"], module.get_parameter("linear.weight") * 2)


@pytest.mark.slow
def test_a_module_that_is_its_own_inference_mode_is_seen_with_its_defaults() -> None:
    """There no operator is told what it takes by default, such as the epsilon of a norm."""
    module = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16)).eval()
    module.forward = torch.inference_mode()(module.forward)  # type: ignore[method-assign]
    assert 1e-5 in watch(from_module(module, INPUTS), {"x": np.ones((2, 16), np.float32)}).numbers
    assert judged(module).passed
