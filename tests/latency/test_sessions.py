"""How many sessions take turns, and in which order they are made."""

from __future__ import annotations

from typing import cast

import pytest

from ffn_export.latency.sessions import SESSIONS, add_sessions, free_memory, session_count
from ffn_export.runtimes.base import Runner

GIB = 2**30


@pytest.mark.parametrize(
    ("weight_bytes", "files", "free", "count"),
    [
        (2**20, 8, 8 * GIB, SESSIONS),
        (0, 8, 8 * GIB, SESSIONS),
        (GIB // 2, 1, 64 * GIB, SESSIONS),
        (GIB, 1, 64 * GIB, 2),  # 4 GiB of one file is enough, also for a device
        (GIB // 2, 2, 8 * GIB, 2),
        (GIB // 2, 8, 8 * GIB, 1),
        (16 * GIB, 1, 8 * GIB, 1),
        (2**20, 8, 0, 1),
    ],
)
def test_sessions_fit_into_half_of_the_memory(weight_bytes: int, files: int, free: int, count: int) -> None:
    assert session_count(weight_bytes, files, free) == count


def test_where_the_system_does_not_tell_little_memory_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert free_memory() > 0
    monkeypatch.delattr("os.sysconf")
    assert free_memory() == GIB


def test_further_sessions_are_made_in_turn() -> None:
    made: list[str] = []

    def load(name: str) -> Runner:
        made.append(name)
        return cast("Runner", name)

    loaded = {name: [cast("Runner", name)] for name in ("module", "a", "b")}
    add_sessions(loaded, load, ["a", "b"], 1)
    assert made == ["a", "b"] * (SESSIONS - 1)
    assert {name: len(each) for name, each in loaded.items()} == {"module": 1, "a": SESSIONS, "b": SESSIONS}
