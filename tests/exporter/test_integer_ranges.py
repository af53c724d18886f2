from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ffn_export.exporter.source import from_module
from tests.exporter.helpers import assert_same_function, exported, module_of

Ids = {"ids": "int64[batch,seq]"}


def ranges(module: nn.Module, inputs: dict[str, str]) -> dict[str, tuple[float, float] | None]:
    return {spec.name: spec.value_range for spec in from_module(module, inputs).inputs}


def test_each_input_stays_below_the_smallest_table_that_it_indexes() -> None:
    def forward(self: Any, ids: Tensor, types: Tensor, mask: Tensor) -> Any:
        return (self.words(ids) + self.more(ids) + self.types(types)) * mask[..., None]

    module = module_of(forward, words=nn.Embedding(50, 4), more=nn.Embedding(40, 4), types=nn.Embedding(2, 4))
    inputs = dict.fromkeys(("ids", "types", "mask"), "int64[batch,seq]")
    assert ranges(module, inputs) == {"ids": (0, 39), "types": (0, 1), "mask": (0, 1)}


@pytest.mark.parametrize(
    "lookup",
    [
        lambda self, ids: F.embedding(ids, self.table),
        lambda self, ids: self.table[ids],
        lambda self, ids: self.table[ids.view(-1)],
        lambda self, ids: self.table.index_select(0, ids.flatten()),
        lambda self, ids: self.table.gather(0, ids),
        lambda self, ids: F.embedding(ids.int(), self.table),
        lambda self, ids: F.one_hot(ids, 30).float() @ self.table,
    ],
)
def test_any_way_to_look_up_a_table(lookup: Callable[..., Tensor]) -> None:
    assert ranges(module_of(lookup, table=nn.Parameter(torch.randn(30, 4))), Ids) == {"ids": (0, 29)}


def test_a_table_that_is_indexed_through_a_cast_counts() -> None:
    module = module_of(
        lambda self, ids: self.large(ids) + self.small(ids.int()), large=nn.Embedding(50, 4), small=nn.Embedding(3, 4)
    )
    assert ranges(module, Ids) == {"ids": (0, 2)}


def test_an_input_that_is_changed_before_the_lookup_gets_the_smallest_table() -> None:
    module = module_of(
        lambda self, ids: self.a(ids * 1) + self.b.weight.sum(), a=nn.Embedding(9, 4), b=nn.Embedding(5, 4)
    )
    assert ranges(module, Ids) == {"ids": (0, 4)}


def test_without_tables_and_with_a_range_of_ones_own() -> None:
    module = module_of(lambda self, ids: ids + 1)
    assert ranges(module, Ids) == {"ids": (0, 16)}
    assert ranges(module, {"ids": "bool[n]"}) == {"ids": (0, 1)}
    assert ranges(module, {"ids": "int64[n]{-5..5}"}) == {"ids": (-5, 5)}
    assert ranges(module, {"ids": "float32[n]"}) == {"ids": None}


def test_an_input_that_indexes_nothing_is_as_large_as_the_module_takes() -> None:
    for rows, largest in ((20, 16), (8, 4), (3, 1)):
        positions = nn.Parameter(torch.zeros(rows, 2))
        module = module_of(lambda self, ids, positions=positions: positions[ids + 1])
        assert ranges(module, Ids) == {"ids": (0, largest)}


@pytest.mark.parametrize(("name", "largest"), [("attention_mask", 1), ("padding", 1), ("valid", 1), ("lengths", 16)])
def test_a_mask_is_known_by_its_name(name: str, largest: int) -> None:
    class Masked(nn.Module):
        def forward(self, **given: Tensor) -> Tensor:
            return given[name] + 1

    assert ranges(Masked(), {name: "int64[n]"}) == {name: (0, largest)}


def test_a_small_dtype_is_not_overrun_by_a_large_table() -> None:
    module = module_of(lambda self, ids: self.table(ids.long()), table=nn.Embedding(1000, 2))
    assert ranges(module, {"ids": "uint8[n]"}) == {"ids": (0, 255)}


def test_bytes_that_index_nothing_have_their_whole_range() -> None:
    module = module_of(lambda self, pixels: pixels.float() / 255)
    assert ranges(module, {"pixels": "uint8[n]"}) == {"pixels": (0, 255)}
    assert ranges(module, {"pixels": "int8[n]"}) == {"pixels": (-128, 127)}
    assert ranges(module, {"mask": "uint8[n]"}) == {"mask": (0, 1)}
    positions = nn.Parameter(torch.zeros(8, 2))
    assert ranges(module_of(lambda self, ids: positions[ids.long() + 1]), {"ids": "uint8[n]"}) == {"ids": (0, 4)}


def test_looking_at_a_module_in_training_leaves_it_as_it_was() -> None:
    module = nn.Sequential(nn.Embedding(7, 4), nn.Dropout(0.5), nn.BatchNorm1d(4)).train()
    state = torch.random.get_rng_state()
    assert ranges(module, {"ids": "int64[n]"}) == {"ids": (0, 6)}
    assert module[2].num_batches_tracked == 0
    assert all(part.training for part in module.modules())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_embeddings_agree_with_onnxruntime_over_the_whole_table() -> None:
    module = module_of(lambda self, ids: self.table(ids), table=nn.Embedding(5, 3))
    source = from_module(module, Ids)
    assert_same_function(source, exported(module, Ids), {"batch": 4, "seq": 33}, {"batch": 1, "seq": 1})


def test_a_range_is_marked_as_guessed_unless_a_table_ends_with_it() -> None:
    def forward(self: Any, direct: Tensor, tens: Tensor, changed: Tensor, mask: Tensor) -> Any:
        clipped = changed.clone()
        clipped.clamp_(0, 8)
        return (self.a(direct) + self.a(tens // 10) + self.a(clipped)) * mask[..., None]

    module = module_of(forward, a=nn.Embedding(9, 4))
    specs = from_module(module, dict.fromkeys(("direct", "tens", "changed", "mask"), "int64[batch,seq]")).inputs
    assert [spec.name for spec in specs if spec.range_is_guessed] == ["tens", "changed"]
    assert {spec.value_range for spec in specs if spec.name != "mask"} == {(0, 8)}
    assert not any(
        spec.range_is_guessed for spec in from_module(module_of(lambda self, x: x * 2), {"x": "int64[n]{0..3}"}).inputs
    )
