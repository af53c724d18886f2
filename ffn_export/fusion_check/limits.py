"""Time and memory limits of the check."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


class OutOfTimeError(Exception):
    """The time is over."""


@dataclass(frozen=True)
class Limits:
    """Limits of a check.

    Attributes:
        seconds: Time after which no further step is begun. A step, at most a fusion, a load or a run on a few
            rows, is not interrupted.
        weight_bytes: Largest size of the weights of a model that is run. Weights that fusing computes, and transposed
            views, take up to as much again for each graph, and larger ones take too long.
        evaluator_bytes: The same for ONNX's reference evaluator, which multiplies matrices in NumPy and reads
            the whole model as one protobuf.
        value_bytes: Largest size of all compared values together, for one set of inputs.
        optimised_nodes: Largest number of nodes of a graph that is also run at ONNX Runtime's default level. Its
            optimiser takes time that grows with their square: 4 s for 10,000, 26 s for 20,000.
    """

    seconds: float = 60.0
    weight_bytes: int = 2**31
    evaluator_bytes: int = 2**26
    value_bytes: int = 2**28
    optimised_nodes: int = 8000


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
        """Check that time is left for another step.

        Raises:
            OutOfTimeError: If no time is left.
        """
        if self.elapsed > self.limits.seconds:
            raise OutOfTimeError(f"the {self.limits.seconds:g} s that it may take were over")
