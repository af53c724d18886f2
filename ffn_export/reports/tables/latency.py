"""What was timed, beside the baseline."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ffn_export.latency.result import LatencyResult, Ratio
from ffn_export.reports.copies import copies_words
from ffn_export.reports.limits import limit_cells, limit_words
from ffn_export.reports.tables.environment import environment_line
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, add_row, new_table


def latency_table(result: LatencyResult) -> RenderableType:
    """Return one row for each set of sizes and runtime, and what they were measured on.

    A ratio below 1 is faster than the baseline; where its interval holds 1 the row says ``tie``. What was timed with
    copies has a row of its own.
    """
    ratio = f"time over {result.baseline or 'baseline'}\n(ratio)"
    numbers = (
        "median\n(ms)", "p90\n(ms)", "p99\n(ms)", "tokens\n(1/s)", "products\n(GFLOP/s)", "of the limit\n(share)",
        ratio, "95 % interval\n(ratio)", "rounds\n(runs)",
    )  # fmt: skip
    table = new_table("sizes", "runtime", *numbers, "verdict", numbers=numbers)
    for measurement in result.measurements:
        ratios = {r.label: r for r in measurement.ratios}
        for timing in measurement.timings:
            add_row(
                table,
                measurement.label,
                timing.label,
                _milliseconds(timing.median),
                _milliseconds(timing.p90),
                _milliseconds(timing.p99),
                f"{measurement.tokens / timing.median:,.0f}",
                *limit_cells(result, measurement, timing),
                *_ratio_cells(ratios.get(timing.label)),
                str(timing.rounds),
                _verdict(ratios.get(timing.label), is_baseline=timing.label == result.baseline),
            )
    missing = [Text(f"{runtime} unavailable: {reason}", UNSURE) for runtime, reason in result.unavailable.items()]
    limits = [] if result.ceilings is None else [Text(limit_words(result.ceilings), QUIET)]
    copies = copies_words(result)
    noted = [] if copies is None else [Text(copies, QUIET)]
    machine = environment_line(result.environment)
    return Group(Text(f"latency of {result.model}"), table, *missing, *noted, *limits, machine)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f}"


def _ratio_cells(ratio: Ratio | None) -> tuple[str, str]:
    if ratio is None:
        return "", ""
    return f"{ratio.value:.3f}", f"{ratio.low:.3f} to {ratio.high:.3f}"


def _verdict(ratio: Ratio | None, is_baseline: bool) -> Text:
    if ratio is None:
        return Text("baseline" if is_baseline else "", QUIET)
    if ratio.is_tie:
        return Text("tie", UNSURE)
    if ratio.high < 1:
        return Text("faster", GOOD)
    return Text("slower", BAD)
