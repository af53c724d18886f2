"""A module that draws numbers where no exporter sees it is named, and no bound is taken from it."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ffn_export import export, verify
from ffn_export.exporter.source import from_module
from ffn_export.parity.checks import repeatable
from ffn_export.parity.reference.references import TorchReference
from tests.exporter.helpers import module_of

INPUTS = {"x": "float32[1<=batch,16]"}
FEEDS = {"x": np.ones((2, 16), np.float32)}


def drawn_by_numpy(self: nn.Module, x: Tensor) -> Tensor:
    return x + torch.from_numpy(np.random.default_rng().normal(0, 0.05, 16).astype(np.float32))


def drawn_by_python(self: nn.Module, x: Tensor) -> Tensor:
    return x * (1 + 1e-3 * random.random())


@pytest.mark.parametrize("forward", [drawn_by_numpy, drawn_by_python])
def test_a_module_that_draws_numbers_fails_by_name(forward: object) -> None:
    module = module_of(forward)  # type: ignore[arg-type]
    result = verify(export(module, INPUTS), against=module, inputs=INPUTS, runtimes=["ort-cpu"])
    assert any("gives other numbers in 'y' when it is called again" in line for line in result.failures)


def test_no_numbers_of_any_dtype_is_repeatable() -> None:
    module = module_of(lambda self, x: {"a": x.bfloat16(), "b": x > 0, "c": x / 0, "d": x[:0], "e": x.long()})
    assert repeatable.differences(TorchReference(from_module(module, INPUTS), 1), FEEDS) == ()


@pytest.mark.parametrize(
    "again",
    [lambda x, n: x / n, lambda x, n: x[:n], lambda x, n: x.long() + n, lambda x, n: (x + n).bfloat16()],
    ids=["infinite", "shape", "integer", "bfloat16"],
)
def test_whatever_differs_is_seen(again: object) -> None:
    calls = iter(range(10))
    module = module_of(lambda self, x: again(x, next(calls)))  # type: ignore[operator]
    (line,) = repeatable.differences(TorchReference(from_module(module, INPUTS), 1), FEEDS)
    assert "make them an input" in line


@pytest.mark.parametrize("fill", [-1e9, -float("inf")])
def test_a_draw_beside_a_fill_is_seen(fill: float) -> None:
    draw = random.Random(0)
    taken = torch.arange(16) < 4
    module = module_of(lambda self, x: torch.where(taken, fill, x + draw.random()))
    assert len(repeatable.differences(TorchReference(from_module(module, INPUTS), 1), FEEDS)) == 1
    module = module_of(lambda self, x: torch.where(taken, fill, x))
    assert repeatable.differences(TorchReference(from_module(module, INPUTS), 1), FEEDS) == ()
