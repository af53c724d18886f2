"""Charts of latency over tokens: first how many times as fast as the baseline, then milliseconds.

A line is dashed for times with copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ffn_export.latency.result import LatencyResult, Timing
from ffn_export.reports.html import chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import Locator

_MARKERS = "os^D"


def speed_svg(result: LatencyResult) -> str | None:
    """Return the chart of speed over the baseline's, with 95 % intervals; None for fewer than two numbers of tokens."""
    compared = [timing for timing in _shown(result) if timing.label != result.baseline]
    if len(_tokens(result)) < 2 or not compared or result.baseline is None:
        return None
    with chart.figure() as (drawn, axes):
        ends = [(1.0, chart.label(result.baseline), chart.INK)]
        axes.axhline(1.0, color=chart.INK, linewidth=1)
        for timing, color, marker in zip(compared, chart.SERIES, _MARKERS, strict=False):
            x, y, below, above = _speeds(result, timing)
            if x:
                axes.errorbar(x, y, yerr=[below, above], **_style(timing, color, marker))
                ends.append((y[-1], timing.label, color))
        _scale(axes, _tokens(result))
        axes.set_ylabel(f"times as fast as {chart.label(result.baseline)}")
        chart.label_ends(axes, ends)
        names = ", ".join(timing.label for timing in compared)
        return chart.to_svg(drawn, "speed", f"Speed of {names} over that of {result.baseline}, both axes logarithmic")


def latency_svg(result: LatencyResult) -> str | None:
    """Return the chart of milliseconds; None for fewer than two numbers of tokens."""
    if len(_tokens(result)) < 2:
        return None
    shown, ends = _shown(result), []
    measured = sorted(result.measurements, key=lambda each: each.tokens)
    with chart.figure() as (drawn, axes):
        # The baseline has the ink of the line at 1 in the chart of speeds; the others have the same colours there.
        colors = (chart.INK, *chart.SERIES) if shown and shown[0].label == result.baseline else chart.SERIES
        markers = f"v{_MARKERS}" if colors[0] == chart.INK else _MARKERS
        for timing, color, marker in zip(shown, colors, markers, strict=False):
            points = [(m.tokens, t) for m in measured for t in m.timings if t.label == timing.label]
            x, y = [tokens for tokens, _ in points], [t.median * 1e3 for _, t in points]
            upper = [max(t.p90 - t.median, 0.0) * 1e3 for _, t in points]
            axes.errorbar(x, y, yerr=[[0.0] * len(y), upper], **_style(timing, color, marker))
            ends.append((y[-1], timing.label, color))
        limits = [(m.tokens, limit * 1e3) for m in measured if (limit := result.limit(m)) is not None]
        if limits and len(shown) < chart.MOST_LINES:
            axes.plot(*zip(*limits, strict=True), color=chart.QUIET, linestyle=":", linewidth=1.6)
            ends.append((limits[-1][1], "limit", chart.QUIET))
        _scale(axes, _tokens(result))
        axes.set_ylabel("milliseconds, median to p90")
        chart.label_ends(axes, ends)
        names = ", ".join(timing.label for timing in shown)
        return chart.to_svg(drawn, "latency", f"Latency of {names} over tokens, both axes logarithmic")


def _shown(result: LatencyResult) -> list[Timing]:
    """Return a timing of each competitor with a line: the baseline, runtimes, default sessions, those with copies."""
    each = {timing.label: timing for measurement in result.measurements for timing in measurement.timings}
    order = sorted(each.values(), key=lambda t: (t.label != result.baseline, t.copies, t.default))
    return order[: chart.MOST_LINES]


def _tokens(result: LatencyResult) -> list[int]:
    return sorted({each.tokens for each in result.measurements})


def _speeds(result: LatencyResult, timing: Timing) -> tuple[list[int], list[float], list[float], list[float]]:
    """Return tokens, speeds over the baseline's, and the lengths of their intervals below and above."""
    x, y, below, above = [], [], [], []
    for measurement in sorted(result.measurements, key=lambda each: each.tokens):
        ratio = next((r for r in measurement.ratios if r.label == timing.label), None)
        times = {each.label: each.median for each in measurement.timings}
        if timing.label not in times or (ratio is None and result.baseline not in times):
            continue
        value = times[str(result.baseline)] / times[timing.label] if ratio is None else 1 / ratio.value
        low, high = (value, value) if ratio is None else (1 / ratio.high, 1 / ratio.low if ratio.low else value)
        x.append(measurement.tokens)
        y.append(value)
        below.append(max(value - low, 0.0))
        above.append(max(high - value, 0.0))
    return x, y, below, above


def _style(timing: Timing, color: str, marker: str) -> dict[str, Any]:
    line = "--" if timing.copies else "-"
    return {
        "color": color,
        "marker": marker,
        "markersize": 4.5,
        "linestyle": line,
        "linewidth": 1.6,
        "elinewidth": 1,
        "capsize": 2,
    }


def _scale(axes: Axes, counts: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(counts, labels=[f"{count:,}" for count in counts])
    axes.yaxis.set_major_locator(_locator(*axes.get_ylim()))
    axes.yaxis.set_major_formatter(lambda number, _: f"{number:g}")
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.set_xlabel("tokens")


def _locator(least: float, most: float) -> Locator:
    """Return ticks of a logarithmic axis: a chart may span a tenth of a decade, or several decades."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    if most < 5 * least:
        return MaxNLocator(5)
    return LogLocator(subs=(1, 2, 5) if most < 50 * least else (1,))
