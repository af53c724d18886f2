"""No number is taken for 0 or 1 that is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ffn_export.exporter.exact_rules import _constants, exact_rules
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module
from tests.exporter.helpers import X, module_of, ops, run


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1e-8, 1e-12, 1e-30])
def test_the_epsilon_of_a_norm_is_kept(epsilon: float) -> None:
    module = module_of(lambda self, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon))
    (y,) = run(export_source(from_module(module, X)), {"x": np.zeros((1, 2, 4), np.float32)})
    assert y.tolist() == np.zeros((1, 2, 4)).tolist()


@pytest.mark.parametrize(
    ("forward", "operator", "factor"),
    [
        (lambda self, x: x * 1.000005, "Mul", 1.000005),
        (lambda self, x: x / 1.000005, "Div", 1 / 1.000005),
        (lambda self, x: x - 1e-9, "Sub", None),
    ],
)
def test_a_number_near_another_is_kept(forward: Callable[..., Any], operator: str, factor: float | None) -> None:
    model = export_source(from_module(module_of(forward), X))
    assert ops(model) == [operator]
    (y,) = run(model, {"x": np.full((1, 1, 4), 0 if factor is None else 1, np.float32)})
    np.testing.assert_array_equal(y, np.full((1, 1, 4), -1e-9 if factor is None else factor, np.float32))


@pytest.mark.slow
def test_what_does_nothing_is_taken_away() -> None:
    model = export_source(from_module(module_of(lambda self, x: self.linear(x * 1 + 0) / 1, linear=nn.Linear(4, 4)), X))
    assert ops(model) == ["MatMul", "Add"]


@pytest.mark.slow
def test_two_pairs_of_bounds_of_one_input_and_a_value_called_as_a_bound() -> None:
    """onnxscript's rules for them give two initializers one name, and the graph reads one that is not there."""
    bounds = {name: nn.Buffer(torch.tensor(value)) for name, value in zip("abcd", (-1.0, 1.0, -2.0, 2.0), strict=True)}

    def clipped(self: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        narrow = torch.minimum(torch.maximum(x, self.a), self.b)
        return narrow + self.x_min, torch.minimum(torch.maximum(x, self.c), self.d)

    module = module_of(clipped, **bounds, x_min=nn.Buffer(torch.full((4,), 10.0)))
    x = np.array([[[-3, -1.5, 1.5, 3]]], np.float32)
    narrow, wide = run(export_source(from_module(module, X)), {"x": x})
    assert narrow.ravel().tolist() == [9, 9, 11, 11]
    assert wide.ravel().tolist() == [-2, -1.5, 1.5, 2]


def test_the_rules_are_as_before_afterwards() -> None:
    constants = _constants()
    before = [vars(constant).copy() for constant in constants]
    assert {0, 1} <= {constant.value for constant in constants if isinstance(constant.value, int)}
    with exact_rules(is_half=False):
        assert all(constant._abs_tol == constant._rel_tol == 0 for constant in constants)
    assert [vars(constant) for constant in constants] == before
