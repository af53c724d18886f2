"""A timing as table rows and notes on doubts, copies and the machine's limits, for every report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ffn_export.latency.result import LatencyResult, Ratio, Speed, Timing


@dataclass(frozen=True)
class _Timed:
    """A competitor at one set of sizes."""

    timing: Timing
    speed: Speed
    ratio: Ratio | None
    over_default: Ratio | None


@dataclass(frozen=True)
class _Column:
    """A column of numbers; a cell without a number is empty.

    Attributes:
        title: Title, in which ``{baseline}`` stands for its label.
        unit: Unit of the numbers.
        cell: Function that returns the cell of a competitor.
        brief: Whether a console shows it without -v.
    """

    title: str
    unit: str
    cell: Callable[[_Timed], str]
    brief: bool = False


_COLUMNS = (
    _Column("median", "ms", lambda each: _milliseconds(each.timing.median), brief=True),
    _Column("p90", "ms", lambda each: _milliseconds(each.timing.p90)),
    _Column("p99", "ms", lambda each: _milliseconds(each.timing.p99)),
    _Column("tokens", "1/s", lambda each: f"{each.speed.tokens_per_second:,.0f}"),
    _Column("products", "GFLOP/s", lambda each: _number(each.speed.gflops, ",.1f")),
    _Column("of GEMM", "share", lambda each: _number(each.speed.gemm_share, ".2f")),
    _Column("of memory", "share", lambda each: _number(each.speed.memory_share, ".2f")),
    _Column("time over {baseline}", "ratio", lambda each: _value(each.ratio), brief=True),
    _Column("95 % interval", "ratio", lambda each: _interval(each.ratio), brief=True),
    _Column("time over default", "ratio", lambda each: _value(each.over_default), brief=True),
    _Column("rounds", "runs", lambda each: str(each.timing.rounds)),
)


def _columns(verbose: bool) -> list[_Column]:
    return [column for column in _COLUMNS if verbose or column.brief]


def headers(result: LatencyResult, joined: str, *, verbose: bool) -> tuple[str, ...]:
    """Return the titles of the columns of numbers, with ``joined`` between title and unit."""
    baseline = result.baseline or "baseline"
    return tuple(f"{each.title.format(baseline=baseline)}{joined}({each.unit})" for each in _columns(verbose))


def rows(result: LatencyResult, *, verbose: bool) -> Iterator[tuple[str, ...]]:
    """Yield a row for each set of sizes and runtime, and another if it was timed with copies.

    Its cells are the sizes, the runtime, a number for each of the :func:`headers`, and the verdict: ``baseline``,
    ``tie``, ``faster``, ``slower`` or ``inconclusive``.
    """
    for measurement in result.measurements:
        ratios = {ratio.label: ratio for ratio in measurement.ratios}
        defaults = {ratio.label: ratio for ratio in measurement.over_default}
        for timing in measurement.timings:
            label = timing.label
            timed = _Timed(timing, result.speed(measurement, timing), ratios.get(label), defaults.get(label))
            numbers = (column.cell(timed) for column in _columns(verbose))
            yield measurement.label, label, *numbers, _verdict(timed.ratio, is_baseline=label == result.baseline)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f}"


def _number(number: float | None, spec: str) -> str:
    return "" if number is None else format(number, spec)


def _value(ratio: Ratio | None) -> str:
    return "" if ratio is None or ratio.doubt else f"{ratio.value:.3f}"


def _interval(ratio: Ratio | None) -> str:
    return "" if ratio is None else f"{ratio.low:.3f} to {ratio.high:.3f}"


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
