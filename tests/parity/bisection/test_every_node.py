"""A fault is planted at every node in turn, and that node is named."""

from __future__ import annotations

from itertools import islice

import onnx_ir as ir
import pytest

from ffn_export.fusion.pipeline import fuse
from tests.parity.bisection import planted
from tests.parity.bisection.conftest import Search, Subject

# A constant for all keys of a query cancels in the softmax: the function is the same.
_CANCELS = {("wrong_weight", "node_linear_1"), ("other_operator", "node_linear_1")}


def faults(model: ir.Model, plants: tuple[planted.Plant, ...], *, one_each: bool) -> list[tuple[planted.Plant, int]]:
    """Return which faults apply at which nodes: all, or for each node another one in turn."""
    found: list[tuple[planted.Plant, int]] = []
    for place in range(len(model.graph)):
        turned = plants[place % len(plants) :] + plants[: place % len(plants)]
        copies = ((plant, model.clone()) for plant in turned)
        applicable = ((plant, place) for plant, copy in copies if plant(copy, list(copy.graph)[place]) is not None)
        found += islice(applicable, 1 if one_each else None)
    return found


def misnamed(
    model: ir.Model,
    subject: Subject,
    search: Search,
    which: list[tuple[planted.Plant, int]],
    *,
    renamed: bool = False,
    fused: bool = False,
) -> list[str]:
    """Plant each fault and return those for which another node is named, or none."""
    wrong = []
    for plant, place in which:
        suspect = model.clone()
        node = list(suspect.graph)[place]
        fault = f"{plant.__name__} at {node.op_type} {node.name}"
        if renamed and (plant.__name__, node.name) in _CANCELS:
            continue
        guilty = plant(suspect, node)
        assert guilty is not None
        if renamed:
            planted.rename(suspect)
        found, _ = search(suspect, subject)
        named = found.part.node.name if found.part is not None else None
        # An inserted node and the fused one behind it are one site.
        there = () if found.part is None else found.part.nodes
        if named != guilty.name and not (fused and guilty.name in [each.name for each in there]):
            wrong.append(f"{fault}: {named} is named for {guilty.name}, {found.reason}")
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("plant", planted.ALL, ids=lambda plant: plant.__name__)
def test_in_a_feed_forward(plant: planted.Plant, add_norm: Subject, search: Search) -> None:
    which = faults(add_norm.model, (plant,), one_each=False)
    assert bool(which) != (plant in (planted.transposed_weight, planted.swapped_inputs))
    assert misnamed(add_norm.model, add_norm, search, which) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ort", "ort-cpu"])
def test_in_a_fused_feed_forward(target: str, add_norm: Subject, search: Search) -> None:
    fused, _ = fuse(add_norm.model, target)
    which = faults(fused, (planted.wrong_weight, planted.inserted, planted.other_attribute), one_each=True)
    assert len(which) == len(fused.graph)
    assert misnamed(fused, add_norm, search, which, fused=True) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(1, 6))])
def test_in_a_transformer(block: Subject, search: Search, first: int) -> None:
    """Every sixth node, and with six no multiple of the number of faults, every fault."""
    which = faults(block.model, planted.ALL, one_each=True)
    assert len(which) == len(block.model.graph)
    assert misnamed(block.model, block, search, which[first::6]) == []


@pytest.mark.slow
@pytest.mark.exhaustive
def test_in_a_transformer_whose_names_say_nothing(block: Subject, search: Search) -> None:
    which = faults(block.model, planted.ALL, one_each=True)[::3]  # each of them aligns both graphs anew
    assert misnamed(block.model, block, search, which, renamed=True) == []


@pytest.mark.slow
@pytest.mark.exhaustive
def test_in_a_fused_transformer(block: Subject, search: Search) -> None:
    fused, _ = fuse(block.model, "ort")
    which = faults(fused, (planted.wrong_weight, planted.other_attribute, planted.inserted), one_each=True)
    assert misnamed(fused, block, search, which, fused=True) == []
