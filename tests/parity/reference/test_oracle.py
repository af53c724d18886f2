from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ffn_export as fx
from ffn_export.exporter.source import from_module, resolve
from ffn_export.modules import twin_of
from ffn_export.parity.reference.oracle import TorchOracle


class CastingNorm(nn.Module):
    """Casts to float32 inside, as many norms do."""

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        return (wide / wide.pow(2).mean(-1, keepdim=True).sqrt()).to(x.dtype) + torch.ones(x.shape[-1]).float()


def test_casts_inside_forward_do_not_cost_the_oracle_its_precision() -> None:
    source = from_module(CastingNorm(), {"x": "float32[batch,8]"})
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    (y,) = TorchOracle(source).run({"x": x})
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True)) + 1
    assert y.dtype == np.float64
    assert np.abs(y - expected).max() < 1e-15 * 8


@pytest.mark.parametrize("preset", ["bert-ffn", "gemma-ffn", "d2l-ffn-addnorm", "nlp-transformers-conv"])
def test_oracle_is_the_numpy_twin_to_1e_12(preset: str) -> None:
    source = resolve(preset)
    x = np.random.default_rng(1).standard_normal((2, 3, source.inputs[0].shape({"batch": 2, "seq": 3})[-1]))
    (y,) = TorchOracle(source).run({"x": x.astype(np.float32)})
    module = resolve(preset).module.double()
    expected = twin_of(module)(x.astype(np.float32).astype(np.float64))
    assert np.abs(y - expected).max() <= 1e-12 * np.abs(expected).max()


@pytest.mark.slow
def test_a_module_in_training_mode_is_judged_as_it_is_exported() -> None:
    """A dropout in the oracle would allow the model as much as it takes away."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 8)]
    module, inputs = torch.nn.Sequential(*layers).train(), {"x": "float32[batch,8]"}
    exported = fx.export(module, inputs)
    assert fx.verify(exported, module, inputs=inputs, runtimes=["ort-cpu"]).passed
    other = torch.nn.Sequential(layers[0], torch.nn.GELU(approximate="tanh"), *layers[2:]).train()
    assert not fx.verify(exported, other, inputs=inputs, runtimes=["ort-cpu"]).passed
    assert all(each.training for each in module)


def test_the_module_itself_keeps_its_dtype() -> None:
    source = resolve("d2l-ffn")
    TorchOracle(source).run({"x": np.ones((1, 1, 4), np.float32)})
    assert {p.dtype for p in source.module.parameters()} == {torch.float32}


class Branching(nn.Module):
    """Goes one of two ways, by its numbers."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.cond(x.sum() > 0, lambda z: z.to(torch.float32) / 3, lambda z: z.to(torch.float32) * 7, (x,))
        return y


@pytest.mark.parametrize("sign", [1, -1])
def test_both_branches_of_a_condition_are_in_float64(sign: int) -> None:
    source = from_module(Branching(), {"x": "float32[batch,8]"})
    x = sign * np.random.default_rng(0).uniform(0.5, 1, (3, 8)).astype(np.float32)
    (y,) = TorchOracle(source).run({"x": x})
    expected = x.astype(np.float64) / 3 if sign > 0 else x.astype(np.float64) * 7
    np.testing.assert_array_equal(y, expected)
