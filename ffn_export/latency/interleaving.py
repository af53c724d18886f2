"""Runs competitors in turn and takes their times: what slows the machine for a while then slows all of them."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from ffn_export.latency.competitors import Call

MIN_WARM_UP = 3
MIN_ROUNDS = 4
MAX_ROUNDS = 60
BLOCK = 3  # timed runs in a row, after one that is not timed
_STEADY = 0.1  # largest change from one turn of the warm-up to the next
_LOOK = 0.012  # seconds between two looks at whether this process is idle: what it was given is counted in ticks
_IDLE = 0.25  # of one processor
_LONGEST_WAIT = 0.6  # seconds, for a program that has work of its own

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Pace:
    """How often competitors run.

    Attributes:
        warm_up: Runs of each competitor at the least before anything is timed, and one of each session; 0 where all
            have run just before, and then the timed rounds are the fewest.
        rounds: Timed rounds at the least.
        most_rounds: Timed rounds at the most.
        block: Timed runs of a competitor in a row.
        untimed: Runs before these, in each round.
    """

    warm_up: int = MIN_WARM_UP
    rounds: int = MIN_ROUNDS
    most_rounds: int = MAX_ROUNDS
    block: int = BLOCK
    untimed: int = 1


@dataclass(frozen=True)
class Runs:
    """A competitor's times.

    Attributes:
        rounds: Seconds of the runs of each round, all of one session.
        sessions: How many sessions took turns: round ``k`` is of session ``k % sessions``.
    """

    rounds: tuple[tuple[float, ...], ...]
    sessions: int = 1

    @property
    def seconds(self) -> list[float]:
        """Of each run."""
        return [seconds for block in self.rounds for seconds in block]


def interleave(calls: Mapping[Key, Sequence[Call]], budget: float, pace: Pace | None = None) -> dict[Key, Runs]:
    """Time competitors one after the other in every round, their sessions taking turns, a round each.

    A call has to return when its results are there, also those of a device: it is timed by the wall clock.
    Every session is timed in as many rounds as the others. Warm-up goes on until two turns in a row agree for each
    competitor, or half the budget is spent, be it on runs or on the pauses before them.

    Args:
        calls: Name of a competitor -> its sessions, ready to be called.
        budget: Seconds of timed runs for each competitor, or of the pauses before them where these take longer.
        pace: How often they run; None means :class:`Pace` as it is.
    """
    pace = pace or Pace()
    names = list(calls)
    sessions = max(map(len, calls.values()))
    with _no_garbage_collection():
        block = _warm_up(list(calls.values()), budget / 2, pace) if pace.warm_up else math.inf
        wanted = min(pace.most_rounds, max(pace.rounds, int(budget / block)))
        rounds: dict[Key, list[tuple[float, ...]]] = {name: [] for name in names}
        for turn in range(math.ceil(wanted / sessions) * sessions):
            for place in order(len(names), turn):
                name = names[place]
                rounds[name].append(_block(calls[name][turn % len(calls[name])], pace))
    return {name: Runs(tuple(blocks), len(calls[name])) for name, blocks in rounds.items()}


def order(count: int, turn: int) -> list[int]:
    """Return who runs when in a round, such that each follows each other one equally often.

    Rows of a Williams square (E. J. Williams 1949, "Experimental designs balanced for the estimation of residual
    effects of treatments"): ``count`` rounds are balanced where it is even, twice as many where it is odd.

    Args:
        count: How many there are.
        turn: Number of the round.
    """
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(count)]
    row = [(each + turn) % count for each in zigzag]
    return row[::-1] if count % 2 and turn // count % 2 else row


def _block(call: Call, pace: Pace) -> tuple[float, ...]:
    """Time a few runs in a row, once the neighbour's threads have gone to sleep."""
    _settle()
    for _ in range(pace.untimed):
        call()
    return tuple(_timed(call) for _ in range(pace.block))


def _warm_up(competitors: Sequence[Sequence[Call]], budget: float, pace: Pace) -> float:
    """Run until all are steady, who has fewer sessions as often as the others; return the mean seconds of a block.

    That is what its timed runs take, or the wait before them where that takes longer.
    """
    sessions = max(map(len, competitors))
    spent = waited = 0.0
    previous = [math.inf] * len(competitors)
    turn = 0
    while True:
        current = [0.0] * len(competitors)
        for place, each in enumerate(competitors):
            for k in range(sessions):
                waited += _settle()
                current[place] += _timed(each[k % len(each)])
        turn += 1
        runs = len(competitors) * sessions
        spent += sum(current)
        is_spent = max(spent, waited) / len(competitors) > budget
        steady = all(abs(now - before) <= _STEADY * now for now, before in zip(current, previous, strict=True))
        if turn * sessions >= pace.warm_up and (steady or is_spent):
            return max(sum(current) / runs * pace.block, waited / (turn * runs))
        previous = current


def _settle() -> float:
    """Wait until the threads of this process have gone to sleep.

    A thread pool spins for a while after a run, waiting for the next one, and takes a processor from whoever runs then:
    on two cores that made others twice as slow. How long depends on the processor: onnxruntime spins for 2**20 pauses,
    which last 3 to 500 ms (its pull request 27916). So it is looked at, by the time that all threads here are given.

    Returns:
        Seconds that were waited.
    """
    started = time.perf_counter()
    while True:
        looked, used = time.perf_counter(), time.process_time()
        time.sleep(_LOOK)
        now = time.perf_counter()
        if time.process_time() - used < _IDLE * (now - looked) or now - started > _LONGEST_WAIT:
            return now - started


def _timed(call: Call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection in the middle of a run would be counted as that run's time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
