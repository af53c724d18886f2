"""Results of a timing, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar

from ffn_export.core.plain_data import PlainData
from ffn_export.core.shown import Shown
from ffn_export.core.words import size_label
from ffn_export.latency.host import STOLEN
from ffn_export.runtimes.environment import Environment

T = TypeVar("T", bound="Timing | Ratio")

RatioVerdict = Literal["faster", "slower", "tie", "inconclusive"]

# Largest factor between the ends of a conclusive interval. Beyond it the ratio may be twice or half of the stated one.
# Four sessions that differ by 10 % each, as page placement makes them, stay below it in 99 of 100 timings.
MOST_SPREAD = 4.0
# Largest lost share of a conclusive ratio. A competitor without a processor for a quarter of the time that it wanted
# one takes a third longer, and the others need not have lost as much.
MOST_LOST = 0.25

# Up to this many tokens, page placement of the weights changes the time of a session by up to 15 %.
FEW_TOKENS = 16


def label(runtime: str, *, copies: bool, default: bool = False) -> str:
    """Return the name of a competitor in reports: ``ort-cuda``, ``ort-cuda default``, ``ort-cuda with copies``."""
    return f"{runtime}{' default' if default else ''}{' with copies' if copies else ''}"


@dataclass(frozen=True)
class Timing:
    """One competitor on one set of sizes, in seconds.

    Attributes:
        runtime: Name of the runtime.
        median: Median time of a run.
        p90: 90th percentile.
        p99: 99th percentile.
        rounds: Number of timed runs.
        accelerated: Whether it ran on an accelerator. The processor's limits do not apply to it.
        sessions: Number of sessions that took turns.
        copies: Whether each run copied its inputs from host memory to the device, and its outputs back. Otherwise they
            are on the device.
        default: Whether it is the runtime's default session on the model as it was exported: what a user would have
            without this package.
    """

    runtime: str
    median: float
    p90: float
    p99: float
    rounds: int
    accelerated: bool = False
    copies: bool = False
    sessions: int = 1
    default: bool = False

    def __post_init__(self) -> None:
        _require_positive(self.median)

    @property
    def label(self) -> str:
        """Its name in reports, such as ``ort-cuda with copies``."""
        return label(self.runtime, copies=self.copies, default=self.default)


@dataclass(frozen=True)
class Ratio:
    """A runtime's time over the baseline's, from runs made in turn.

    Attributes:
        runtime: Name of the runtime.
        baseline: Label of the baseline. A runtime with copies is compared with the baseline with copies, if it has any.
        value: Ratio of the medians; below 1 the runtime is faster.
        low: Lower end of the 95 % bootstrap confidence interval.
        high: Upper end.
        copies: Whether the runtime was timed with copies. No quality gate judges this ratio: it measures the way to the
            device as much as the model.
        lost: Share of the time that others took from both while they were timed.
        lost_to: The cause of that in words.
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
        """The runtime's name in reports, as in :class:`Timing`."""
        return label(self.runtime, copies=self.copies)

    @property
    def doubt(self) -> str:
        """Why the ratio is inconclusive, in words; empty if it is conclusive."""
        spread = self.high / self.low if self.low > 0 else math.inf
        is_wide = not spread <= MOST_SPREAD
        reasons = [f"its 95 % interval spans a factor of {spread:.3g}"] if is_wide else []
        if self.lost > (STOLEN if is_wide else MOST_LOST):
            reasons.append(self.lost_to)
        return "; ".join(reasons)

    @property
    def verdict(self) -> RatioVerdict:
        """The verdict of the interval; ``tie`` if it holds 1."""
        if self.doubt:
            return "inconclusive"
        return "tie" if self.is_tie else "faster" if self.high < 1 else "slower"

    @property
    def is_tie(self) -> bool:
        """Whether the interval holds 1: the difference is within the noise."""
        return self.low <= 1.0 <= self.high


@dataclass(frozen=True)
class Work:
    """The least work of a model at given sizes.

    Attributes:
        operations: Multiplications and additions of its matrix products, two for each pair of numbers.
        bytes: Bytes of its weights, inputs and outputs, each moved once.
    """

    operations: int
    bytes: int


@dataclass(frozen=True)
class Ceilings:
    """Limits of the machine, measured in float32 with the threads of the competitors.

    Attributes:
        operations: Floating-point operations a second of a large matrix product.
        bytes: Bytes a second of a matrix of about the size of the weights, read once.
    """

    operations: float
    bytes: float

    def __post_init__(self) -> None:
        _require_positive(self.operations)
        _require_positive(self.bytes)

    def seconds(self, work: Work) -> float:
        """Return the least time of the work: that of its operations or of its bytes, the longer of both."""
        return max(work.operations / self.operations, work.bytes / self.bytes)


@dataclass(frozen=True)
class Speed:
    """Speed derived from a time.

    Attributes:
        tokens_per_second: Throughput.
        gflops: Operations of the matrix products, in billions a second; None if they are unknown.
        gemm_share: Share of the machine's operations a second; None if either is unknown, or on an accelerator.
        memory_share: Share of the machine's bytes a second, with weights, inputs and outputs moved once; None as above.
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
        timings: One a competitor. A runtime with copies has two: without them and with them.
        ratios: Ratios of the model over the baseline.
        work: Least work of the model at these sizes; None if it is unknown.
        counted: Number of tokens; None means the product of the sizes.
        stolen: Share of the processors' time that the host of a virtual machine gave to others meanwhile; None if the
            system does not count it.
        over_default: Ratios of the model over the default session of the same runtime on the exported model.
    """

    sizes: Mapping[str, int]
    timings: tuple[Timing, ...]
    ratios: tuple[Ratio, ...]
    work: Work | None = None
    counted: int | None = None
    stolen: float | None = None
    over_default: tuple[Ratio, ...] = ()

    @property
    def tokens(self) -> int:
        """Number of tokens of a run."""
        return math.prod(self.sizes.values()) if self.counted is None else self.counted

    @property
    def label(self) -> str:
        """The sizes in one word, such as ``batch=8,seq=128``."""
        return size_label(self.sizes)


@dataclass(frozen=True)
class LatencyResult(PlainData, Shown):
    """A whole latency measurement.

    Attributes:
        model: File name of the model, or the name of the baseline without a file.
        baseline: Name of the competitor that the others are compared with; empty without one.
        measurements: One for each set of sizes.
        unavailable: Runtime, or runtime at sizes -> why it was not timed.
        environment: Environment of the measurement, with the thread count of all competitors.
        ceilings: Limits of the machine; None if they were not measured.

    Examples:
        >>> result = fx.bench("model.onnx", against="d2l-ffn", tokens=[16], runtimes=["ort-cpu"], threads=1)
        >>> sorted({timing.runtime for timing in result.measurements[0].timings})
        ['ort-cpu', 'torch']
    """

    model: str
    baseline: str
    measurements: tuple[Measurement, ...]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    environment: Environment | None = None
    ceilings: Ceilings | None = None

    def limit(self, measurement: Measurement) -> float | None:
        """Return the least seconds that the machine needs for a measurement, or None if they are unknown."""
        if self.ceilings is None or measurement.work is None:
            return None
        return self.ceilings.seconds(measurement.work)

    def speed(self, measurement: Measurement, timing: Timing) -> Speed:
        """Convert a time to tokens and operations a second, and to shares of the machine's limits."""
        tokens, work, limits = measurement.tokens / timing.median, measurement.work, self.ceilings
        if work is None:
            return Speed(tokens)
        operations, moved = work.operations / timing.median, work.bytes / timing.median
        if limits is None or timing.accelerated:
            return Speed(tokens, operations / 1e9)
        return Speed(tokens, operations / 1e9, operations / limits.operations, moved / limits.bytes)

    def worst_ratio(self) -> Ratio | None:
        """Return the largest conclusive ratio without copies, or None."""
        ratios = [r for m in self.measurements for r in m.ratios if not r.copies and r.verdict != "inconclusive"]
        return max(ratios, key=lambda ratio: ratio.value, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the speeds and verdicts."""
        data = super().to_dict()
        for measurement, shown in zip(self.measurements, data["measurements"], strict=True):
            shown["tokens"] = measurement.tokens
            for timing, cells in zip(measurement.timings, shown["timings"], strict=True):
                cells.update(asdict(self.speed(measurement, timing)))
            ratios = (*measurement.ratios, *measurement.over_default)
            for ratio, cells in zip(ratios, (*shown["ratios"], *shown["over_default"]), strict=True):
                cells.update(is_tie=ratio.is_tie, verdict=ratio.verdict, doubt=ratio.doubt)
        return data


def _require_positive(number: float) -> None:
    if not number > 0:
        raise ValueError("a time or a speed is not above 0")
