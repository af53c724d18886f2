"""Inputs with numbers that equal what a graph compares them with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ffn_export as fx
from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.parity.cases.thresholds.ties import tied, with_ties
from tests.fusion.graphs import model

_ROWS = {"x": "float32[batch,seq,8]"}
_NUMBERS = "float half = {0.5}, float far = {1000}, int64 one = {1}"


@pytest.mark.parametrize(
    ("body", "limits"),
    [
        ("b = Greater(x, half) y = Cast<to = 1>(b)", (-0.5, 0.5)),
        ("n = Neg(x) r = Round(n) b = LessOrEqual(half, r) y = Cast<to = 1>(b)", (-0.5, 0.5)),
        ("m = ReduceMax(x, one) b = Equal(x, m) y = Cast<to = 1>(b)", ()),
        ("i = ArgMax<axis = -1>(x) y = Cast<to = 1>(i)", ()),
        ("b = Greater(x, far) y = Cast<to = 1>(b)", None),
        ("d = Mul(x, half) b = Greater(d, half) y = Cast<to = 1>(b)", None),
        ("d = Mul(x, half) b = Greater(x, d) y = Cast<to = 1>(b)", None),
        ("y = Clip(x, half, far)", None),
    ],
)
def test_numbers_that_are_compared_without_rounding(body: str, limits: tuple[float, ...] | None) -> None:
    graph = model(body, _NUMBERS, inputs="float[batch,seq,8] x", outputs="float[a,b,c] y")
    assert tied(graph, parse_inputs(_ROWS)).get("x") == limits


def test_a_third_of_the_numbers_are_limits_and_many_others_equal() -> None:
    drawn = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
    array = with_ties({"x": drawn}, {"x": (0.3,)}, 0)["x"]
    assert np.count_nonzero(array == np.float32(0.3)) == 12
    assert len(np.unique(array)) < 15
    assert array.dtype == np.float32


class OfRows(nn.Module):
    def __init__(self, forward: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._forward = forward

    def forward(self, x: Tensor) -> Tensor:
        return self._forward(x)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (lambda x: torch.where(x > 0.5, x, -x), lambda x: torch.where(x >= 0.5, x, -x)),
        (lambda x: torch.where(x.abs() < 2, x, 0), lambda x: torch.where(x.abs() <= 2, x, 0)),
        (lambda x: torch.where(x > x.roll(1, -1), x, 2 * x), lambda x: torch.where(x >= x.roll(1, -1), x, 2 * x)),
        (lambda x: x.argmax(-1).float(), lambda x: 7 - x.flip(-1).argmax(-1).float()),
    ],
)
def test_a_tie_on_the_wrong_side_fails(right: Callable[[Tensor], Tensor], wrong: Callable[[Tensor], Tensor]) -> None:
    module, planted = OfRows(right).eval(), fx.export(OfRows(wrong).eval(), _ROWS)
    assert fx.verify(fx.export(module, _ROWS), module, inputs=_ROWS, runtimes=["ort-cpu"]).passed
    assert not fx.verify(planted, module, inputs=_ROWS, runtimes=["ort-cpu"]).passed
