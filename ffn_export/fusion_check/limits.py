"""How much time and memory the check may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


class OutOfTimeError(Exception):
    """The time is over."""


@dataclass(frozen=True)
class Limits:
    """Bounds of a check.

    Attributes:
        seconds: Time after which no further step is begun. A step, at most a fusion, a load or a run on a few
            rows, is not interrupted.
        weight_bytes: Weights above it are not run: those that fusing computes, or that are transposed views, take
            up to as much again for each graph, and nobody waits for the fuser as long as that takes.
        evaluator_bytes: The same for ONNX's reference evaluator, which multiplies matrices in NumPy and reads
            the whole model as one protobuf.
        value_bytes: What all values together that are compared may take, for one set of inputs.
    """

    seconds: float = 60.0
    weight_bytes: int = 2**31
    evaluator_bytes: int = 2**26
    value_bytes: int = 2**28


@dataclass
class Deadline:
    """The time of one check."""

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    _start: float = field(init=False)

    def __post_init__(self) -> None:
        self._start = self.clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the check began."""
        return self.clock() - self._start

    def require(self) -> None:
        """Ask for the time of another step.

        Raises:
            OutOfTimeError: There is none left.
        """
        if self.elapsed > self.limits.seconds:
            raise OutOfTimeError(f"the {self.limits.seconds:g} s that it may take were over")
