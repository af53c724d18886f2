"""Time competitors in turn, so that a slow phase of the machine affects all of them."""

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
_LOOK = 0.012  # seconds between two checks whether this process is idle: its CPU time is counted in ticks
_IDLE = 0.25  # share of one processor below which this process is idle
_LONGEST_WAIT = 0.6  # seconds, for a program whose other threads never go idle

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Pace:
    """How often competitors run.

    Attributes:
        warm_up: Least number of untimed runs of each competitor before the first round, at least one a session. 0 if
            all have run just before; then there are only ``rounds`` rounds.
        rounds: Least number of timed rounds.
        most_rounds: Largest number of timed rounds.
        block: Timed runs of a competitor in a row.
        untimed: Untimed runs before each block.
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
        rounds: Seconds of the runs of each round; a round runs one session.
        sessions: Number of sessions that took turns: round ``k`` is of session ``k % sessions``.
    """

    rounds: tuple[tuple[float, ...], ...]
    sessions: int = 1

    @property
    def seconds(self) -> list[float]:
        """Seconds of each run."""
        return [seconds for block in self.rounds for seconds in block]


def interleave(calls: Mapping[Key, Sequence[Call]], budget: float, pace: Pace | None = None) -> dict[Key, Runs]:
    """Time all competitors in every round, one after the other. The sessions of a competitor take turns, a round each.

    A call is timed by the wall clock, so it must return only when its results are computed, also on a device. All
    sessions are timed in equally many rounds. Warm-up ends when two turns in a row agree for each competitor, or when
    runs or the pauses before them have taken half the budget.

    Args:
        calls: Name of a competitor -> its sessions, ready to be called.
        budget: Seconds of timed runs for each competitor, or of the pauses before them if these take longer.
        pace: How often they run; None means the defaults of :class:`Pace`.
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
    """Return the order of the competitors in a round, such that each follows each other one equally often.

    Rows of a Williams square (E. J. Williams 1949, "Experimental designs balanced for the estimation of residual
    effects of treatments"): ``count`` rounds are balanced if it is even, twice as many if it is odd.
    """
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(count)]
    row = [(each + turn) % count for each in zigzag]
    return row[::-1] if count % 2 and turn // count % 2 else row


def _block(call: Call, pace: Pace) -> tuple[float, ...]:
    """Time a block of runs in a row, once the threads of the previous competitor have gone to sleep."""
    settle()
    for _ in range(pace.untimed):
        call()
    return tuple(_timed(call) for _ in range(pace.block))


def _warm_up(competitors: Sequence[Sequence[Call]], budget: float, pace: Pace) -> float:
    """Run until all competitors are steady, and return the mean seconds of a block.

    The seconds of a block are those of its timed runs, or the wait before them if that takes longer. A competitor with
    fewer sessions runs as often as the others.
    """
    sessions = max(map(len, competitors))
    spent = waited = 0.0
    previous = [math.inf] * len(competitors)
    turn = 0
    while True:
        current = [0.0] * len(competitors)
        for place, each in enumerate(competitors):
            for k in range(sessions):
                waited += settle()
                current[place] += _timed(each[k % len(each)])
        turn += 1
        runs = len(competitors) * sessions
        spent += sum(current)
        is_spent = max(spent, waited) / len(competitors) > budget
        steady = all(abs(now - before) <= _STEADY * now for now, before in zip(current, previous, strict=True))
        if turn * sessions >= pace.warm_up and (steady or is_spent):
            return max(sum(current) / runs * pace.block, waited / (turn * runs))
        previous = current


def settle() -> float:
    """Wait until the threads of this process have gone to sleep.

    A thread pool spins for a while after a run and takes a processor from the next competitor: on two cores, that
    became twice as slow. The time depends on the processor: onnxruntime spins for 2**20 pauses, which last 3 to 500 ms
    (its pull request 27916). So this measures the CPU time of all threads of the process until it is low.

    Returns:
        Seconds waited.
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
    """Disable garbage collection, whose time would count as that of a run."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
