"""Candidates that take a planted time, by a clock that shows nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ffn_export.core.types import Array
from ffn_export.runtimes.base import Runner
from ffn_export.runtimes.registry import get_runtime
from ffn_export.tuning.candidates import Candidate
from ffn_export.tuning.choice import Choice

FAST, SLOW = 0.01, 0.04  # seconds
_TICK = 1e-6


class Clock:
    """Stands in for the module ``time`` where competitors are timed: it moves on while somebody sleeps.

    Each look at it takes a microsecond too, so that what sleeps never, as what a build times at last, takes some time.

    What is chosen then depends on what was planted alone. The sessions are real, and run.
    """

    def __init__(self) -> None:
        self._now = 0.0

    def perf_counter(self) -> float:
        self._now += _TICK
        return self._now

    def process_time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        self._now += seconds


class Delayed:
    """A real session whose every timed run takes some time more."""

    def __init__(self, candidate: Candidate, seconds: float, sleep: Callable[[float], None]) -> None:
        self.runner: Runner = get_runtime("ort-cpu").load(candidate.artifact, 1)
        self._seconds, self._sleep = seconds, sleep

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return self.runner.run(feeds)

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        call = self.runner.prepare(feeds)

        def run() -> Any:
            self._sleep(self._seconds)
            return call()

        return run

    def placement(self) -> dict[str, int]:
        return self.runner.placement()

    def precision(self) -> str:
        return self.runner.precision()


def loading(is_slow: Callable[[Choice], bool], sleep: Callable[[float], None]) -> Callable[[Candidate], Runner]:
    """Load candidates on ONNX Runtime, slow ones where a choice is named and fast ones else."""
    return lambda candidate: Delayed(candidate, SLOW if is_slow(candidate.choice) else FAST, sleep)
