"""How many sessions take turns, and in which order they are made."""

from __future__ import annotations

from typing import cast

from ffn_export.latency.sessions import SESSIONS, add_sessions, session_count
from ffn_export.runtimes.base import Runner


def test_a_large_model_has_one_session() -> None:
    assert session_count(2**20) == SESSIONS > 1
    assert session_count(2**30) == 1


def test_further_sessions_are_made_in_turn() -> None:
    made: list[str] = []

    def load(name: str) -> Runner:
        made.append(name)
        return cast("Runner", name)

    loaded = {name: [cast("Runner", name)] for name in ("module", "a", "large", "b")}
    add_sessions(loaded, load, {"a": 1, "large": 2**30, "b": 1})
    assert made == ["a", "b"] * (SESSIONS - 1)
    assert {name: len(each) for name, each in loaded.items()} == {"module": 1, "a": SESSIONS, "large": 1, "b": SESSIONS}
