"""Integers outside a range that was guessed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

import ffn_export as fx
from ffn_export.core.tensor_spec import Dim, TensorSpec
from ffn_export.fusion_check.running import runtimes
from ffn_export.parity.cases.thresholds.beyond import Beyond, holding
from ffn_export.parity.cases.thresholds.find import find
from tests.fusion.graphs import model

_IDS = {"ids": "int64[batch,seq]"}
_BORDERS = [3, 10, 18, 40, 65, 100, 1000]
_TABLE = """
    float[3,2] table = {1, 2, 3, 4, 5, 6}, int64 zero = {0}, int64 two = {2}, int64 ten = {10}, int64 far = {5000000}
"""
_GUESSED = TensorSpec("ids", "int64", (Dim("batch"), Dim("seq")), (0, 2), range_is_guessed=True)


def _graph(body: str) -> ir.Model:
    return model(body, _TABLE, inputs="int64[batch,seq] ids", outputs="float[a,b,2] y")


def _integers(graph: ir.Model, takes: Callable[[int], bool], spec: TensorSpec = _GUESSED) -> tuple[int, ...]:
    with runtimes(1) as running:
        return Beyond(graph, find(graph), running).integers(spec, lambda _, number: takes(number))


def test_both_sides_of_a_clamp_and_of_each_bucket() -> None:
    body = "tens = Div(ids, ten) near = Clip(tens, zero, two) y = Gather<axis = 0>(table, near)"
    assert {9, 10, 19, 20, 29, 30} <= {*_integers(_graph(body), lambda _: True)}


def test_a_border_far_away() -> None:
    body = "above = Greater(ids, far) index = Where(above, two, zero) y = Gather<axis = 0>(table, index)"
    assert {5_000_000, 5_000_001} <= {*_integers(_graph(body), lambda _: True)}
    assert max(_integers(_graph(body), lambda number: number < 300)) == 299


def test_a_range_that_ends_where_the_module_does_is_left() -> None:
    graph = _graph("y = Gather<axis = 0>(table, ids)")
    assert _integers(graph, lambda number: 0 <= number <= 2) == ()
    assert _integers(graph, lambda number: 0 <= number <= 20)[-1] == 20


def test_graphs_that_pair_each_token_with_each() -> None:
    body = """
        rows = Unsqueeze(ids, one) columns = Unsqueeze(ids, two) sum = Add(rows, columns) tens = Clip(sum, ten, far)
        index = Sub(tens, ten) y = Gather<axis = 0>(table, index)
    """
    graph = model(body, f"{_TABLE}, int64 one = {{1}}", inputs="int64[batch,seq] ids", outputs="float[a,b,c,2] y")
    assert {4, 5, 6} <= {*_integers(graph, lambda number: number < 50)}


def test_a_declared_range_is_left() -> None:
    declared = TensorSpec("ids", "int64", _GUESSED.dims, (0, 2))
    assert _integers(_graph("y = Gather<axis = 0>(table, ids)"), lambda _: True, declared) == ()


@pytest.mark.parametrize(
    "body",
    [
        "most = ReduceMax<keepdims = 0>(ids) all = Range(zero, most, two) sum = Add(ids, all)",
        "sum = com.microsoft.Unknown(ids)",
    ],
)
def test_integers_that_take_memory_or_are_not_checked_are_not_tried(body: str) -> None:
    def tried(number: int) -> bool:
        raise AssertionError(number)

    graph = _graph(f"{body} y = Gather<axis = 0>(table, sum)")
    for value in graph.graph.inputs:
        value.dtype = ir.DataType.INT64
    assert _integers(graph, tried) == ()


def test_an_input_grows_to_hold_them() -> None:
    sizes, array = holding(_GUESSED, {"batch": 3, "seq": 5}, range(40))
    assert (sizes, array.shape) == ({"batch": 3, "seq": 14}, (3, 14))
    assert {*array.flat} == {*range(40)}
    assert array.dtype == np.int64


class Bucketed(nn.Module):
    borders: Tensor

    def __init__(self, bucket: Callable[[Tensor, Tensor], Tensor], borders: list[int]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(10, 4)
        self.register_buffer("borders", torch.tensor(borders))
        self.bucket = bucket

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.table(self.bucket(ids, self.borders))
        return found


def _logarithm(ids: Tensor, offset: float) -> Tensor:
    return (torch.log2(ids.float().clamp(min=1)) + offset).long().clamp(max=9)


def _in_place(ids: Tensor, most: int) -> Tensor:
    changed = ids.clone()
    return changed.clamp_(0, most)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (torch.bucketize, lambda x, b: torch.bucketize(x + (x == 40).long(), b)),
        (torch.bucketize, lambda x, b: torch.bucketize(x.clamp(max=99), b)),
        (lambda x, _: x // 10, lambda x, _: x // 11),
        (lambda x, _: (x // 10).clamp(0, 9), lambda x, _: (x // 10).clamp(0, 8)),
        (lambda x, _: x % 10, lambda x, _: x.clamp(0, 9)),
        (lambda x, _: x.clamp(-4, 4) + 4, lambda x, _: x.clamp(-3, 4) + 4),
        (lambda x, _: x.clamp(0, 9), lambda x, _: x),
        (lambda x, _: _logarithm(x, 0.0), lambda x, _: _logarithm(x, 0.1)),
        (lambda x, _: _in_place(x, 9), lambda x, _: _in_place(x, 8) + (x == 9).long()),
    ],
)
def test_a_wrong_border_fails(
    right: Callable[[Tensor, Tensor], Tensor], wrong: Callable[[Tensor, Tensor], Tensor]
) -> None:
    module = Bucketed(right, _BORDERS).eval()
    planted = fx.export(Bucketed(wrong, _BORDERS).eval(), _IDS)
    assert fx.verify(fx.export(module, _IDS), module, inputs=_IDS, runtimes=["ort-cpu"]).passed
    assert not fx.verify(planted, module, inputs=_IDS, runtimes=["ort-cpu"]).passed
