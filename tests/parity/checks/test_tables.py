"""Which initializers are taken for which tables: of positions, integers and masks, whole or by rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn

import ffn_export as fx
from ffn_export.parity.checks.constants import traced
from ffn_export.parity.checks.constants.collect import is_setting
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.measures import WeightMetrics
from ffn_export.parity.judging.tolerances import Tolerances
from tests.parity.checks.held_constants import Array, compare_weights, found, graph


def test_a_mask_of_infinities_is_compared_like_any_other() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask = torch.full((8, 8), -torch.inf).triu(1)

    module = Masked()
    wrong = module.mask.numpy().copy()
    wrong[5, 1] = 3.0
    (found,) = compare_weights(graph(mask=wrong), module)
    assert (found.parameter, found.differing) == ("mask", 1)


class Tables(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        grid = np.random.default_rng(0).integers(0, 225, (49, 49))
        self.register_buffer("relative_position_index", torch.from_numpy(grid))
        self.register_buffer("causal", torch.tril(torch.ones(24, 24, dtype=torch.bool))[None, None])
        self.register_buffer("position_ids", torch.arange(64)[None])


class OfPositions(nn.Module):
    """Adds a table that products of constants and parameters make, as the bias by positions of Swin V2."""

    def __init__(self, masked: bool = False, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("places", torch.randn(8, 2, dtype=dtype))
        self.one, self.two = nn.Linear(2, 64, dtype=dtype), nn.Linear(64, 8, bias=False, dtype=dtype)
        self.masked = masked

    def forward(self, x: torch.Tensor) -> Any:
        table = self.two(self.one(self.places).relu())
        return x + (table.masked_fill(table > 0.2, -torch.inf) if self.masked else table)


def moved_by(parts: float, module: nn.Module, dtype: str = "float32") -> list[WeightMetrics]:
    """Compare the weights after the smallest number of the table moved by that many parts of the largest."""
    model = fx.export(module, {"x": f"{dtype}[batch,8,8]"})
    (value,) = (each for each in model.graph.initializers.values() if each.const_value is not None)
    assert value.const_value is not None
    table = value.const_value.numpy().copy()
    finite = np.where(np.isfinite(table), np.abs(table), 0)
    table[np.unravel_index(np.where(finite > 0, finite, np.inf).argmin(), table.shape)] += parts * finite.max()
    value.const_value = ir.tensor(table, name=value.name)
    result = fx.verify(model, against=module, inputs={"x": f"{dtype}[batch,8,8]"}, runtimes=["ort-cpu"])
    return [each for each in result.weights if each.differing]


def test_a_table_that_sums_make_may_be_off_as_another_processor_adds() -> None:
    assert moved_by(6 * 2.0**-23, OfPositions()) == []
    (wrong,) = moved_by(1e-5, OfPositions())
    assert wrong.differing == 1
    # An infinity in the table widens nothing.
    assert moved_by(0, OfPositions(True, torch.float16), "float16") == []
    assert moved_by(0.1, OfPositions(True, torch.float16), "float16")


def test_integers_and_masks_are_compared_exactly() -> None:
    module = Tables()
    buffers = {name: buffer.numpy() for name, buffer in module.named_buffers()}
    index, causal = buffers["relative_position_index"], buffers["causal"]
    right = {"index": index.reshape(-1), "mask": np.where(causal, 0, -np.inf).astype(np.float32), "turned": ~causal}
    found = compare_weights(graph(**right, ids=buffers["position_ids"]), module)
    assert [each.differing for each in found] == [0, 0, 0, 0]
    swapped, off_by_one = index[[1, 0, *range(2, 49)]], np.tril(np.ones((24, 24), bool), 1)
    found = compare_weights(graph(index=swapped, mask=off_by_one), module)
    assert [(each.parameter, each.differing > 10) for each in found] == [
        ("relative_position_index", True),
        ("causal", True),
    ]
    window = causal & ~np.tril(np.ones((24, 24), bool), -6)
    axes = np.array([0, 2, 1, 3])
    assert compare_weights(graph(window=window, axes=axes), module) == ()


TABLE = np.random.default_rng(0).standard_normal((130, 16)).astype(np.float32)


def exchanged(array: Array, one: int, other: int) -> Array:
    rows = np.arange(len(array))
    rows[[one, other]] = other, one
    return array[rows]


@pytest.mark.parametrize(
    "cut",
    [
        lambda table: table[3:103],
        lambda table: table[1::3],
        lambda table: np.concatenate([table[2:42], table[77:90]]),
        lambda table: table[5:105].T,
        lambda table: (table[3:103, 0] * 1000).astype(np.int64),
    ],
    ids=["slice", "every third", "two slices", "transposed", "integers"],
)
def test_exchanged_rows_of_a_table_that_was_cut(cut: Callable[[Array], Array]) -> None:
    module = nn.Module()
    module.table = nn.Parameter(torch.tensor(TABLE))
    module.register_buffer("numbers", torch.tensor((TABLE[:, 0] * 1000).astype(np.int64)))
    assert [w.differing for w in compare_weights(graph(cut=cut(TABLE)), module)] == [0]
    wrong = np.ascontiguousarray(cut(exchanged(TABLE, 10, 16)))
    (found,) = compare_weights(graph(cut=wrong), module)
    assert found.differing == (2 if wrong.ndim == 1 else 32)


def test_rows_in_an_order_of_their_own_are_no_exchange() -> None:
    module = nn.Module()
    module.table = nn.Parameter(torch.tensor(TABLE))
    blocks = np.concatenate([TABLE[:40], TABLE[80:120], TABLE[40:80]])
    for rows in (TABLE[np.random.default_rng(0).permutation(130)][:100], blocks, TABLE[np.abs(np.arange(-40, 40))]):
        assert [w.differing for w in compare_weights(graph(rows=rows), module)] == [0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_parameter_that_holds_nan_is_itself(dtype: torch.dtype) -> None:
    module = nn.Module()
    stored = torch.arange(32, dtype=torch.float32).square().reshape(4, 8)
    stored[1, 2] = torch.nan
    module.register_buffer("table", stored.to(dtype))
    held = ir.tensor(stored.to(dtype), name="table").numpy()
    (same,) = compare_weights(graph(table=held), module)
    assert (same.parameter, same.differing) == ("table", 0)
    wrong = held.copy()
    wrong[2, 3] *= 2
    (other,) = compare_weights(graph(table=wrong), module)
    assert (other.parameter, other.differing, other.worst_index) == ("table", 1, (2, 3))


def test_an_infinity_makes_no_two_tables_alike() -> None:
    one = np.array([-np.inf, *range(1, 32)])
    assert traced.distance(np.array([-np.inf, *range(90, 121)]), one) > traced.NEAR


@pytest.mark.parametrize("start", [2**62, -(2**63), 0])
def test_one_wrong_integer_of_a_table_is_found_at_any_size(start: int) -> None:
    module = nn.Module()
    module.register_buffer("table", start + torch.arange(40) ** 2)
    held: Array = module.get_buffer("table").numpy()
    assert found(module, held) == ("table", "as it is", 0)
    wrong = held.copy()
    wrong[7] += 1
    (other,) = compare_weights(graph(table=wrong), module)
    assert (other.parameter, other.differing, other.worst_index) == ("table", 1, (7,))
    # A budget is for rounding, which integers have none of.
    assert verdict.weight_failure(other, Tolerances(relative_l2=0.5)) is not None


@pytest.mark.parametrize("start", [2**62, -(2**63), 0])
def test_large_integers_are_no_setting(start: int) -> None:
    assert not is_setting(start + np.arange(20) ** 2)
    assert is_setting(start + np.arange(20))
    assert not is_setting(np.array([250, 4, 14, 24] * 5, np.uint8))
