"""Cases that are made for the thresholds of one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ffn_export as fx
from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.exporter.source import from_module
from ffn_export.parity.cases.case import given, sweep
from ffn_export.parity.cases.thresholds.aimed import Aimed, aimed
from ffn_export.parity.cases.thresholds.longer import longer
from ffn_export.parity.reference.references import TorchReference

pytestmark = pytest.mark.traced

ROWS = {"x": "float32[batch,seq,16]"}
IDS = {"ids": "int64[batch,seq]{0..5000}"}


class Of(nn.Module):
    def __init__(self, forward: Callable[..., Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.linear = nn.LayerNorm(16), nn.Linear(16, 16)
        self._forward = forward


class OfRows(Of):
    def forward(self, x: Tensor) -> Any:
        return self._forward(self, x)


class OfIds(Of):
    def forward(self, ids: Tensor) -> Any:
        return self._forward(self, ids)


def made(module: nn.Module, inputs: dict[str, str]) -> Aimed:
    source = from_module(module, inputs)
    return aimed(fx.export(module, inputs), TorchReference(source, 1), sweep(source.inputs), 1)


@pytest.mark.slow
def test_without_thresholds_nothing_is_made() -> None:
    assert made(OfRows(lambda self, x: self.linear(x)), ROWS) == Aimed()


@pytest.mark.slow
def test_an_input_meets_the_numbers_it_is_held_against_exactly_and_on_both_sides() -> None:
    found = made(OfRows(lambda self, x: torch.where(x > 1e4, 0.0, x).clamp(-2e4, 2e4) + (x == 0.25)), ROWS)
    arrays = {case.name: case.feeds(())["x"] for case in found.cases}
    assert list(arrays) == ["batch=3,seq=5 threshold 0.25", "batch=3,seq=5 threshold 10000", "batch=3,seq=5 ties"]
    far = arrays["batch=3,seq=5 threshold 10000"]
    for limit in (1e4, 2e4):
        assert (far == limit).any()
        assert (far > limit).any()
        assert (far < -limit).any()
    assert (far == np.nextafter(np.float32(1e4), np.float32(np.inf))).any()
    assert (arrays["batch=3,seq=5 threshold 0.25"] == 0.25).any()


@pytest.mark.slow
def test_a_value_behind_a_product_is_brought_to_its_threshold() -> None:
    (case,) = made(OfRows(lambda self, x: self.linear(x).clamp(max=65504.0)), ROWS).cases
    assert 1e4 < np.abs(case.feeds(())["x"]).max() < 1e7


@pytest.mark.slow
def test_a_value_behind_a_norm_is_brought_there_along_its_direction() -> None:
    """The fourth element is at most the norm of its centred weights, times the root of the width, and its bias."""
    module = OfRows(lambda self, x: self.linear(self.norm(x))[..., 3:4].clamp(max=limit))
    weights = module.linear.weight[3]
    limit = 0.9 * float((weights - weights.mean()).norm() * 4 + module.linear.bias[3])
    (case,) = made(module, ROWS).cases
    assert case.values == "threshold"
    assert (module.linear(module.norm(torch.from_numpy(case.feeds(())["x"])))[..., 3] > limit).any()


@pytest.mark.slow
def test_what_no_input_reaches_is_said() -> None:
    found = made(OfRows(lambda self, x: self.norm(x).clamp(max=100.0)), ROWS)
    assert found.cases == ()
    (note,) = found.notes
    assert "(Clip): nothing arrived above its limit" in note or "(Min): nothing arrived above its limit" in note


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    [
        lambda ids: ids == 1234,
        lambda ids: (ids - 1000 == 234) | (ids * 2 == 2468),
        lambda ids: (ids.float() / 2).sub(617).abs() < 0.25,
        lambda ids: (ids[..., None] == torch.tensor([7, 1234])).any(-1),
    ],
)
def test_integers_that_are_told_apart_are_met(condition: Callable[[Tensor], Tensor]) -> None:
    found = made(OfIds(lambda self, ids: torch.where(condition(ids), -1.0, ids.float())), IDS)
    drawn = {int(number) for case in found.cases for number in case.feeds(())["ids"].flat}
    assert {1233, 1234, 1235} <= drawn


@pytest.mark.slow
def test_a_users_own_arrays_are_not_joined_by_others() -> None:
    module = OfRows(lambda self, x: x.clamp(max=1e4))
    source = from_module(module, ROWS)
    own = given({"x": np.zeros((1, 2, 16), np.float32)}, parse_inputs(ROWS))
    assert aimed(fx.export(module, ROWS), TorchReference(source, 1), [own], 1) == Aimed()


def test_integers_that_no_input_brings_together_are_said() -> None:
    found = made(OfIds(lambda self, ids: torch.where((ids[:, 0] - ids[:, -1] == 4_321)[:, None], 0, ids)), IDS)
    (note,) = found.notes
    assert "(Equal): nothing arrived at its limit" in note


@pytest.mark.parametrize("unreached", [lambda ids: ids >= 6_000, lambda ids: ids - ids.flip(1) - 5_001 >= -20_000])
def test_a_side_that_all_integers_leave_out_is_none(unreached: Callable[[Tensor], Tensor]) -> None:
    assert made(OfIds(lambda self, ids: torch.where(unreached(ids), 1, 2)), IDS).notes == ()


def test_a_floor_under_sums_of_embeddings_is_none() -> None:
    table = torch.linspace(1, 2, 64).reshape(16, 4)
    floored = OfIds(lambda self, ids: (table[ids % 16] + table[ids.flip(1) % 16]).amax(-1).clamp_min(1e-30))
    assert made(floored, IDS).notes == ()


@pytest.mark.parametrize(
    ("limit", "lengths"),
    [(700.0, [64, 512, 702, 4096]), (5.0, [7, 64, 512, 4096]), (9e9, [64, 512, 4096]), ("v", [64, 512, 4096])],
)
def test_a_count_passes_a_limit_just_behind_it(limit: float | str, lengths: list[int]) -> None:
    tried = longer(parse_inputs({"ids": "int64[1,seq]"}), {"seq": 5}, 0, (), limit)
    assert [feeds["ids"].shape[1] for feeds in tried] == lengths
