"""What was timed. Plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

from ffn_export.core.size_label import size_label
from ffn_export.latency.host import STOLEN
from ffn_export.runtimes.environment import Environment

T = TypeVar("T", bound="Timing | Ratio")

RatioVerdict = Literal["faster", "slower", "tie", "inconclusive"]

# Ends of an interval that are further apart than this factor say nothing of a ratio: it may be twice or half of what is
# stated. Four sessions that differ by 10 % each, as where pages lie differently, stay below it in 99 of 100 timings.
MOST_SPREAD = 4.0
# A competitor that had no processor for a quarter of the time that it wanted one takes a third longer, and nothing
# says that all competitors lost as much.
MOST_LOST = 0.25

# Where the pages of its weights came to lie moves a session by up to 15 % at so few tokens.
FEW_TOKENS = 16


def label(runtime: str, *, copies: bool) -> str:
    """Return what a runtime is called, with copies or without."""
    return f"{runtime} with copies" if copies else runtime


@dataclass(frozen=True)
class Timing:
    """One competitor on one set of sizes, in seconds.

    Attributes:
        runtime: Its name.
        median: Median time of a run.
        p90: 90th percentile.
        p99: 99th percentile.
        rounds: Number of timed runs.
        accelerated: Whether it ran on another device than the processor, whose limits it does not have.
        sessions: How many took turns.
        copies: Whether each run copied its inputs from host memory to the device, and its outputs back. Without, they
            are where the runtime computes.
    """

    runtime: str
    median: float
    p90: float
    p99: float
    rounds: int
    accelerated: bool = False
    copies: bool = False
    sessions: int = 1

    @property
    def label(self) -> str:
        """What reports call it: ``ort-cuda``, or ``ort-cuda with copies``."""
        return label(self.runtime, copies=self.copies)


@dataclass(frozen=True)
class Ratio:
    """A runtime's time over the baseline's, from runs made in turn.

    Attributes:
        runtime: The runtime.
        baseline: Label of what it is compared with: with copies, a baseline that has copies too is taken with them.
        value: Ratio of the medians; below 1 the runtime is faster.
        low: Lower end of the 95 % bootstrap confidence interval.
        high: Upper end.
        copies: Whether the runtime was timed with copies. No gate judges such a ratio: it is as much that of the way to
            the device as of the model.
        lost: Share of the time that others took from both while they were timed.
        lost_to: To whom, in words.
    """

    runtime: str
    baseline: str
    value: float
    low: float
    high: float
    copies: bool = False
    lost: float = 0.0
    lost_to: str = ""

    @property
    def label(self) -> str:
        """What reports call the runtime, as in :class:`Timing`."""
        return label(self.runtime, copies=self.copies)

    @property
    def doubt(self) -> str:
        """Why the ratio says nothing, in words; empty where it says something."""
        spread = self.high / self.low if self.low > 0 else math.inf
        is_wide = not spread <= MOST_SPREAD
        reasons = [f"the ends of its 95 % interval are a factor of {spread:.3g} apart"] if is_wide else []
        if self.lost > (STOLEN if is_wide else MOST_LOST):
            reasons.append(self.lost_to)
        return "; ".join(reasons)

    @property
    def verdict(self) -> RatioVerdict:
        """What the interval says: a tie holds 1, the difference being inside the noise."""
        if self.doubt:
            return "inconclusive"
        return "tie" if self.is_tie else "faster" if self.high < 1 else "slower"

    @property
    def is_tie(self) -> bool:
        """Whether the interval holds 1: the difference is inside the noise."""
        return self.low <= 1.0 <= self.high


@dataclass(frozen=True)
class Work:
    """What a model cannot do without.

    Attributes:
        operations: Multiplications and additions of its matrix products, two for each pair of numbers.
        bytes: Its weights, inputs and outputs, moved once.
    """

    operations: int
    bytes: int


@dataclass(frozen=True)
class Ceilings:
    """What the machine can do, measured in float32 with the threads of the competitors.

    Attributes:
        operations: Floating-point operations a second of a large matrix product.
        bytes: Bytes a second of a matrix of about the size of the weights, read once.
    """

    operations: float
    bytes: float

    def seconds(self, work: Work) -> float:
        """Return the least time that the work takes: as long as its products, or as its bytes."""
        return max(work.operations / self.operations, work.bytes / self.bytes)


@dataclass(frozen=True)
class Speed:
    """What follows from a time.

    Attributes:
        tokens_per_second: Throughput.
        gflops: Operations of the matrix products, in billions a second; None where they are not known.
        gemm_share: Of the operations a second that the machine reached in a product of its own; None where either is
            not known, or it was not the processor that ran.
        memory_share: Of the bytes a second that the machine reached, those of weights, inputs and outputs moved once.
    """

    tokens_per_second: float
    gflops: float | None = None
    gemm_share: float | None = None
    memory_share: float | None = None


@dataclass(frozen=True)
class Measurement:
    """All competitors on one set of sizes.

    Attributes:
        sizes: Size of each symbolic dimension.
        timings: One a competitor; a runtime that has copies to make is two, without them and with them.
        ratios: Each over the baseline.
        work: What the model has to do at these sizes; None where that is not known.
        counted: How many tokens these sizes are; None takes the product of the sizes for them.
        stolen: Share of the processors' time that the host of a virtual machine gave to others meanwhile; None where
            nobody counts.
    """

    sizes: Mapping[str, int]
    timings: tuple[Timing, ...]
    ratios: tuple[Ratio, ...]
    work: Work | None = None
    counted: int | None = None
    stolen: float | None = None

    @property
    def tokens(self) -> int:
        """How many tokens went through the model."""
        return math.prod(self.sizes.values()) if self.counted is None else self.counted

    @property
    def label(self) -> str:
        """The sizes in one word, such as ``batch=8,seq=128``."""
        return size_label(self.sizes)


@dataclass(frozen=True)
class LatencyResult:
    """A whole latency measurement.

    Attributes:
        model: What was timed.
        baseline: Name of the competitor that the others are compared with; empty without one.
        measurements: One for each set of sizes.
        unavailable: Runtime -> why it was not timed.
        environment: Where, with the thread count that all competitors had.
        ceilings: What the machine can do; None where it was not measured.
    """

    model: str
    baseline: str
    measurements: tuple[Measurement, ...]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    environment: Environment | None = None
    ceilings: Ceilings | None = None

    def limit(self, measurement: Measurement) -> float | None:
        """Return the seconds that the machine needs for the work of a measurement, or None where that is not known."""
        if self.ceilings is None or measurement.work is None:
            return None
        return self.ceilings.seconds(measurement.work)

    def speed(self, measurement: Measurement, timing: Timing) -> Speed:
        """Return what a time means in tokens, operations and shares of the machine's limits."""
        tokens, work, limits = measurement.tokens / timing.median, measurement.work, self.ceilings
        if work is None:
            return Speed(tokens)
        operations, moved = work.operations / timing.median, work.bytes / timing.median
        if limits is None or timing.accelerated:
            return Speed(tokens, operations / 1e9)
        return Speed(tokens, operations / 1e9, operations / limits.operations, moved / limits.bytes)

    def worst_ratio(self) -> Ratio | None:
        """Return the largest ratio of those without copies that say something, or None where there is none."""
        ratios = [r for m in self.measurements for r in m.ratios if not r.copies and r.verdict != "inconclusive"]
        return max(ratios, key=lambda ratio: ratio.value, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with what follows from times and ratios."""
        data = asdict(self)
        for measurement, shown in zip(self.measurements, data["measurements"], strict=True):
            shown["tokens"] = measurement.tokens
            for timing, cells in zip(measurement.timings, shown["timings"], strict=True):
                cells.update(asdict(self.speed(measurement, timing)))
            for ratio, cells in zip(measurement.ratios, shown["ratios"], strict=True):
                cells.update(is_tie=ratio.is_tie, verdict=ratio.verdict, doubt=ratio.doubt)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LatencyResult:
        """Read what :meth:`to_dict` wrote.

        Raises:
            ValueError: If a time or a speed is none.
        """
        speeds = list((data.get("ceilings") or {}).values())
        if not all(
            number > 0 for number in (*speeds, *(t["median"] for m in data["measurements"] for t in m["timings"]))
        ):
            raise ValueError("a time or a speed is not above 0")
        return cls(
            model=data["model"],
            baseline=data["baseline"],
            measurements=tuple(
                Measurement(
                    dict(m["sizes"]),
                    tuple(_read(Timing, timing) for timing in m["timings"]),
                    tuple(_read(Ratio, ratio) for ratio in m["ratios"]),
                    Work(**m["work"]) if m.get("work") else None,
                    m.get("counted"),
                    m.get("stolen"),
                )
                for m in data["measurements"]
            ),
            unavailable=dict(data["unavailable"]),
            environment=Environment.from_dict(data["environment"]) if data["environment"] else None,
            ceilings=Ceilings(**data["ceilings"]) if data.get("ceilings") else None,
        )


def _read(kind: type[T], data: Mapping[str, Any]) -> T:
    """Read a timing or a ratio, without what follows from it."""
    return kind(**{each.name: data[each.name] for each in fields(kind) if each.name in data})
