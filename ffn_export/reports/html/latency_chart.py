"""Chart of latency over tokens: a line for each runtime, dashed for times with copies."""

from __future__ import annotations

from itertools import cycle

from ffn_export.latency.result import LatencyResult
from ffn_export.reports.html import chart

_HEIGHT_PIXELS = 270
_MARKERS = "os^Dv"


def latency_svg(result: LatencyResult, name: str) -> str | None:
    """Return the chart as SVG, with the limit of the machine; None for fewer than two numbers of tokens."""
    measured = sorted(result.measurements, key=lambda each: each.tokens)
    counts = sorted({each.tokens for each in measured})
    if len(counts) < 2:
        return None
    competitors = {timing.label: timing for each in measured for timing in each.timings}
    with chart.figure(_HEIGHT_PIXELS) as (drawn, axes):
        for (label, any_of_it), color, marker in zip(
            competitors.items(), cycle(chart.SERIES), cycle(_MARKERS), strict=False
        ):
            points = [(m.tokens, t) for m in measured for t in m.timings if t.label == label]
            x, y = [n for n, _ in points], [t.median * 1e3 for _, t in points]
            upper = [max(t.p90 - t.median, 0.0) * 1e3 for _, t in points]
            axes.errorbar(
                x,
                y,
                yerr=[[0.0] * len(y), upper],
                color=color,
                marker=marker,
                markersize=4.5,
                linestyle="--" if any_of_it.copies else "-",
                linewidth=1.6,
                elinewidth=1,
                capsize=2,
                label=chart.label(label),
            )
        limits = [(m.tokens, limit * 1e3) for m in measured if (limit := result.limit(m)) is not None]
        if limits:
            axes.plot(*zip(*limits, strict=True), color=chart.QUIET, linestyle=":", linewidth=1.6, label="limit")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(counts, labels=[f"{count:,}" for count in counts])
        axes.yaxis.set_major_formatter(lambda number, _: f"{number:g}")
        axes.minorticks_off()
        axes.grid(visible=True)
        axes.set_xlabel("tokens")
        axes.set_ylabel("milliseconds, median to 90th percentile")
        axes.legend(loc="upper left")
        return chart.to_svg(drawn, name, f"Latency of {', '.join(competitors)} over tokens, both axes logarithmic")
