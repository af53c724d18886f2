"""Competitors run in turn: warm-up, rounds, sessions, and who follows whom."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from ffn_export.latency import interleaving
from ffn_export.latency.interleaving import _LOOK, BLOCK, MIN_ROUNDS, MIN_WARM_UP, Pace, interleave, order


def test_competitors_run_in_turn_after_a_warm_up() -> None:
    ran: list[str] = []
    runs = interleave({name: [partial(ran.append, name)] for name in ("a", "b", "c")}, budget=0.0)
    assert all(len(each.seconds) == BLOCK * MIN_ROUNDS for each in runs.values())
    in_blocks = ran[-3 * (BLOCK + 1) * MIN_ROUNDS :]
    assert len(ran) - len(in_blocks) >= 3 * MIN_WARM_UP
    blocks = [in_blocks[i : i + BLOCK + 1] for i in range(0, len(in_blocks), BLOCK + 1)]
    assert all(len(set(block)) == 1 for block in blocks)
    assert [block[0] for block in blocks[:9]] == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]


def test_competitors_that_have_just_run_are_timed_at_once_and_one_run_at_a_time() -> None:
    ran: list[str] = []
    pace = Pace(warm_up=0, rounds=2, most_rounds=9, block=1, untimed=0)
    runs = interleave({name: [partial(ran.append, name)] for name in ("a", "b")}, 5.0, pace)
    assert ran == ["a", "b", "b", "a"]
    assert all(len(each.seconds) == 2 for each in runs.values())


@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_each_follows_each_other_one_equally_often(count: int) -> None:
    rounds = [order(count, turn) for turn in range(count * (1 + count % 2))]
    assert all(sorted(each) == list(range(count)) for each in rounds)
    follows = Counter(pair for each in rounds for pair in pairwise(each))
    assert set(follows) == {(a, b) for a in range(count) for b in range(count) if a != b}
    assert len(set(follows.values())) == 1


def test_a_slower_competitor_is_seen() -> None:
    runs = interleave({"fast": [lambda: time.sleep(0.001)], "slow": [lambda: time.sleep(0.004)]}, budget=0.1)
    assert np.median(runs["slow"].seconds) > 2 * np.median(runs["fast"].seconds)


@pytest.mark.slow
def test_nobody_is_timed_while_threads_of_another_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of ONNX Runtime do after a run, for a time that differs from processor to processor."""
    monkeypatch.setattr(interleaving, "_LOOK", _LOOK)  # the other tests look for less time
    spinning: list[bool] = []
    seen: list[bool] = []
    block = bytes(2**20)

    def spin() -> None:
        spinning.append(True)
        ends = time.perf_counter() + 0.08
        while time.perf_counter() < ends:
            hashlib.sha256(block)  # outside of the interpreter's lock, as a thread pool
        spinning.pop()

    runs = (BLOCK + 1) * MIN_ROUNDS  # behind those of the warm-up
    for _ in range(3):  # a spinner that a busy machine gives no time looks asleep
        seen.clear()
        with ThreadPoolExecutor() as pool:  # whose threads begin at once, as they are new
            interleave({"a": [lambda: pool.submit(spin)], "b": [lambda: seen.append(bool(spinning))]}, budget=0.0)
        assert len(seen) > runs
        if np.mean(seen[-runs:]) < 0.5:
            break
    assert np.mean(seen[-runs:]) < 0.5


def test_sessions_of_a_competitor_take_turns() -> None:
    ran: list[str] = []
    calls = {"a": [partial(ran.append, "a1"), partial(ran.append, "a2")], "b": [partial(ran.append, "b")]}
    runs = interleave(calls, budget=0.0)
    assert (runs["a"].sessions, runs["b"].sessions) == (2, 1)
    blocks = ran[-2 * (BLOCK + 1) * MIN_ROUNDS :][:: BLOCK + 1]
    assert blocks == ["a1", "b", "b", "a2"] * (MIN_ROUNDS // 2)


def test_every_session_has_as_many_rounds() -> None:
    runs = interleave({"a": [lambda: None] * 3, "b": [lambda: None] * 3}, 0.0, Pace(rounds=4, most_rounds=4))
    assert len(runs["a"].rounds) == 6


def test_all_are_warm_also_who_has_one_session() -> None:
    ran: list[str] = []
    calls = {"a": [partial(ran.append, "a")] * 4, "b": [partial(ran.append, "b")]}
    interleave(calls, 0.0, Pace(warm_up=1, rounds=4, most_rounds=4, block=1, untimed=0))
    assert Counter(ran[:8]) == {"a": 4, "b": 4}
