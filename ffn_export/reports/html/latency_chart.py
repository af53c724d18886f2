"""Latency over the number of tokens, a line a runtime."""

from __future__ import annotations

import math
from itertools import cycle

from ffn_export.latency.result import LatencyResult, Measurement
from ffn_export.reports.html import chart

_HEIGHT_PIXELS = 270
_MARKERS = "os^Dv"


def tokens(measurement: Measurement) -> int:
    """Return the number of tokens of a set of sizes: the product of the symbolic ones, 1 without any."""
    return math.prod(measurement.sizes.values())


def latency_svg(result: LatencyResult, name: str) -> str | None:
    """Draw it; None where there are no two sizes to draw a line between."""
    measured = sorted(result.measurements, key=tokens)
    if len({tokens(each) for each in measured}) < 2:
        return None
    runtimes = dict.fromkeys(timing.runtime for each in measured for timing in each.timings)
    with chart.figure(_HEIGHT_PIXELS) as (drawn, axes):
        for runtime, color, marker in zip(runtimes, cycle(chart.SERIES), cycle(_MARKERS), strict=False):
            points = [(tokens(m), t) for m in measured for t in m.timings if t.runtime == runtime]
            x, y = [n for n, _ in points], [t.median * 1e3 for _, t in points]
            upper = [(t.p90 - t.median) * 1e3 for _, t in points]
            axes.errorbar(x, y, yerr=[[0.0] * len(y), upper], color=color, marker=marker, markersize=4.5,
                          linewidth=1.6, elinewidth=1, capsize=2, label=runtime)  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(
            sorted({tokens(m) for m in measured}), labels=[f"{n:,}" for n in sorted({*map(tokens, measured)})]
        )
        axes.yaxis.set_major_formatter(lambda number, _: f"{number:g}")
        axes.minorticks_off()
        axes.grid(visible=True)
        axes.set_xlabel("tokens")
        axes.set_ylabel("milliseconds, median to 90th percentile")
        axes.legend(loc="upper left")
        return chart.to_svg(drawn, name, f"Latency of {', '.join(runtimes)} over tokens, both axes logarithmic")
