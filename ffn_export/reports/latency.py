"""A timing as table rows and notes on doubts, copies and the machine's limits, for every report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ffn_export.latency.result import LatencyResult, Measurement, Ratio, Timing


class Row(NamedTuple):
    """A competitor at one set of sizes, as the cells of a table; a cell without a number is empty.

    Attributes:
        sizes: Sizes in words.
        runtime: Label of the competitor.
        median: Median in milliseconds.
        p90: 90th percentile in milliseconds.
        p99: 99th percentile in milliseconds.
        tokens: Tokens a second.
        products: GFLOP/s of the matrix products.
        gemm: Share of the machine's operations a second.
        memory: Share of the machine's bytes a second.
        ratio: Time over the baseline's.
        interval: 95 % confidence interval of the ratio.
        over_default: Time over that of the runtime's default session on the exported model.
        rounds: Number of timed runs.
        verdict: ``baseline``, ``tie``, ``faster``, ``slower`` or ``inconclusive``.
    """

    sizes: str
    runtime: str
    median: str
    p90: str
    p99: str
    tokens: str
    products: str
    gemm: str
    memory: str
    ratio: str
    interval: str
    over_default: str
    rounds: str
    verdict: str


# Title and unit of each column of numbers.
NUMBERS = (
    ("median", "ms"),
    ("p90", "ms"),
    ("p99", "ms"),
    ("tokens", "1/s"),
    ("products", "GFLOP/s"),
    ("of GEMM", "share"),
    ("of memory", "share"),
    ("time over {baseline}", "ratio"),
    ("95 % interval", "ratio"),
    ("time over default", "ratio"),
    ("rounds", "runs"),
)
# Columns that a console shows without -v, by place: median, ratio and interval, ratio over the default session.
BRIEF = (0, 7, 8, 9)


def headers(result: LatencyResult, joined: str) -> tuple[str, ...]:
    """Return the titles of the columns of numbers, with ``joined`` between title and unit."""
    baseline = result.baseline or "baseline"
    return tuple(f"{title.format(baseline=baseline)}{joined}({unit})" for title, unit in NUMBERS)


def rows(result: LatencyResult) -> Iterator[Row]:
    """Yield a row for each set of sizes and runtime, and another if it was timed with copies."""
    for measurement in result.measurements:
        ratios = {ratio.label: ratio for ratio in measurement.ratios}
        defaults = {ratio.label: ratio for ratio in measurement.over_default}
        for timing in measurement.timings:
            yield _row(result, measurement, timing, ratios.get(timing.label), defaults.get(timing.label))


def _row(
    result: LatencyResult, measurement: Measurement, timing: Timing, ratio: Ratio | None, default: Ratio | None
) -> Row:
    speed = result.speed(measurement, timing)
    return Row(
        sizes=measurement.label,
        runtime=timing.label,
        median=_milliseconds(timing.median),
        p90=_milliseconds(timing.p90),
        p99=_milliseconds(timing.p99),
        tokens=f"{speed.tokens_per_second:,.0f}",
        products="" if speed.gflops is None else f"{speed.gflops:,.1f}",
        gemm="" if speed.gemm_share is None else f"{speed.gemm_share:.2f}",
        memory="" if speed.memory_share is None else f"{speed.memory_share:.2f}",
        ratio=_value(ratio),
        interval="" if ratio is None else f"{ratio.low:.3f} to {ratio.high:.3f}",
        over_default=_value(default),
        rounds=str(timing.rounds),
        verdict=_verdict(ratio, is_baseline=timing.label == result.baseline),
    )


def _value(ratio: Ratio | None) -> str:
    return "" if ratio is None or ratio.doubt else f"{ratio.value:.3f}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f}"


def _verdict(ratio: Ratio | None, *, is_baseline: bool) -> str:
    if ratio is None:
        return "baseline" if is_baseline else ""
    return ratio.verdict


def doubt_words(result: LatencyResult) -> str:
    """Return why ratios are inconclusive, in one line; empty if none is."""
    doubts = [
        f"{ratio.label} at {measurement.label}: {ratio.doubt}"
        for measurement in result.measurements
        for ratio in measurement.ratios
        if ratio.doubt
    ]
    return f"inconclusive, measure again when nothing else runs: {', '.join(doubts)}" if doubts else ""


def limit_words(result: LatencyResult) -> str:
    """Return the machine's limits in one line; empty if they were not measured."""
    if result.ceilings is None:
        return ""
    speeds = [result.speed(m, timing) for m in result.measurements for timing in m.timings]
    is_above = any((share or 0.0) > 1 for speed in speeds for share in (speed.gemm_share, speed.memory_share))
    return (
        f"limits: products at {result.ceilings.operations / 1e9:,.1f} GFLOP/s (GEMM), weights, inputs and outputs "
        f"moved once at {result.ceilings.bytes / 1e9:,.1f} GB/s (memory), the best of ONNX Runtime here in float32"
        + ("; where a share is above 1, bytes stayed in a cache or work was left out" if is_above else "")
    )


def default_words(result: LatencyResult) -> str:
    """Explain rows of default sessions in one line; empty without such a row."""
    if not any(timing.default for measurement in result.measurements for timing in measurement.timings):
        return ""
    return "default: the model as it was exported, in a session with ONNX Runtime's own options"


def copies_words(result: LatencyResult) -> str:
    """Explain rows with copies in one line; empty without such a row."""
    if not any(timing.copies for measurement in result.measurements for timing in measurement.timings):
        return ""
    return "with copies: inputs and outputs are in host memory before and after each run; without: on the device"
