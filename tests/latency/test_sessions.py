"""How many sessions take turns, and in which order they are made."""

from __future__ import annotations

from typing import cast

import pytest

from ffn_export.latency.sessions import SESSIONS, add_sessions, session_count
from ffn_export.runtimes.base import Runner

GIB = 2**30


@pytest.mark.parametrize(
    ("weight_bytes", "files", "count"),
    [
        (2**20, 9, SESSIONS),
        (0, 9, SESSIONS),
        (2**20, 0, SESSIONS),
        (GIB // 2, 1, SESSIONS),
        (GIB, 1, 2),
        (GIB // 2, 2, 2),
        (GIB // 2, 9, 1),
        (16 * GIB, 1, 1),
    ],
)
def test_all_sessions_stay_within_4_gib(weight_bytes: int, files: int, count: int) -> None:
    assert session_count(weight_bytes, files) == count


def test_without_memory_for_more_all_have_what_they_have() -> None:
    def load(name: str) -> Runner:
        if name == "b":
            raise MemoryError
        return cast("Runner", name)

    loaded = {name: [cast("Runner", name)] for name in ("a", "b")}
    add_sessions(loaded, load, ["a", "b"], 1)
    assert {name: len(each) for name, each in loaded.items()} == {"a": 2, "b": 1}


def test_further_sessions_are_made_in_turn() -> None:
    made: list[str] = []

    def load(name: str) -> Runner:
        made.append(name)
        return cast("Runner", name)

    loaded = {name: [cast("Runner", name)] for name in ("module", "a", "b")}
    add_sessions(loaded, load, ["a", "b"], 1)
    assert made == ["a", "b"] * (SESSIONS - 1)
    assert {name: len(each) for name, each in loaded.items()} == {"module": 1, "a": SESSIONS, "b": SESSIONS}
