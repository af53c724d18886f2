"""What was timed. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ffn_export.runtimes.environment import Environment


@dataclass(frozen=True)
class Timing:
    """One competitor on one set of sizes, in seconds.

    Attributes:
        runtime: Its name.
        median: Median time of a run.
        p90: 90th percentile.
        p99: 99th percentile.
        rounds: Number of timed runs.
    """

    runtime: str
    median: float
    p90: float
    p99: float
    rounds: int


@dataclass(frozen=True)
class Ratio:
    """A runtime's time over the baseline's, from runs made in turn.

    Attributes:
        runtime: The runtime.
        baseline: What it is compared with.
        value: Ratio of the medians; below 1 the runtime is faster.
        low: Lower end of the 95 % bootstrap confidence interval.
        high: Upper end.
    """

    runtime: str
    baseline: str
    value: float
    low: float
    high: float

    @property
    def is_tie(self) -> bool:
        """Whether the interval holds 1: the difference is inside the noise."""
        return self.low <= 1.0 <= self.high


@dataclass(frozen=True)
class Measurement:
    """All competitors on one set of sizes.

    Attributes:
        sizes: Size of each symbolic dimension.
        timings: One a competitor.
        ratios: Each runtime over the baseline.
    """

    sizes: Mapping[str, int]
    timings: tuple[Timing, ...]
    ratios: tuple[Ratio, ...]

    @property
    def label(self) -> str:
        """The sizes in one word, such as ``batch=8,seq=128``."""
        return ",".join(f"{name}={size}" for name, size in self.sizes.items()) or "static"


@dataclass(frozen=True)
class LatencyResult:
    """A whole latency measurement.

    Attributes:
        model: What was timed.
        baseline: Name of the competitor that the others are compared with; empty without one.
        measurements: One for each set of sizes.
        unavailable: Runtime -> why it was not timed.
        environment: Where, with the thread count that all competitors had.
    """

    model: str
    baseline: str
    measurements: tuple[Measurement, ...]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    environment: Environment | None = None

    def worst_ratio(self) -> Ratio | None:
        """Return the largest ratio, or None where nothing was compared."""
        ratios = [ratio for m in self.measurements for ratio in m.ratios]
        return max(ratios, key=lambda ratio: ratio.value, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LatencyResult:
        """Read what :meth:`to_dict` wrote."""
        return cls(
            model=data["model"],
            baseline=data["baseline"],
            measurements=tuple(
                Measurement(
                    dict(m["sizes"]),
                    tuple(Timing(**timing) for timing in m["timings"]),
                    tuple(Ratio(**ratio) for ratio in m["ratios"]),
                )
                for m in data["measurements"]
            ),
            unavailable=dict(data["unavailable"]),
            environment=Environment.from_dict(data["environment"]) if data["environment"] else None,
        )
