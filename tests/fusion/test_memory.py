"""Readings are remembered while the graph stays as it is, and no longer."""

from __future__ import annotations

import pytest

from ffn_export.fusion import memory


@memory.remembered
def last(numbers: tuple[int, ...]) -> int:
    _READ.append(numbers)
    return numbers[-1]


_READ: list[tuple[int, ...]] = []


@pytest.fixture(autouse=True)
def nothing_read() -> None:
    _READ.clear()


def test_outside_of_a_block_nothing_is_remembered() -> None:
    assert [last((1, 2)), last((1, 2))] == [2, 2]
    assert len(_READ) == 2


def test_within_a_block_each_reading_is_made_once() -> None:
    with memory.remembering():
        assert [last((1, 2)), last((1, 2)), last((3,))] == [2, 2, 3]
    assert _READ == [(1, 2), (3,)]


def test_who_changes_the_graph_forgets() -> None:
    with memory.remembering():
        last((1, 2))
        memory.forget()
        last((1, 2))
        with memory.remembering():
            last((1, 2))
    assert len(_READ) == 3
