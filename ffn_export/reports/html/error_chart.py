"""Chart of a runtime's errors, one line for each case: its error, PyTorch's, and the bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.result import CaseResult, CaseStatus, ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.reports.html import chart
from ffn_export.reports.overview import worst_output

# Smaller errors are drawn at this one: no rounding is this small, and a logarithmic axis has no zero.
_LEAST = 0.05
_ROW_PIXELS = 17
_FRAME_PIXELS = 78
_COLORS: dict[CaseStatus, str] = {
    "passed": chart.SERIES[0],
    "warned": chart.UNSURE,
    "failed": chart.BAD,
    "skipped": chart.QUIET,
}


@dataclass(frozen=True)
class ErrorRow:
    """A case.

    Attributes:
        case: Name of the case.
        status: Verdict of the case.
        error: Error; infinite if nothing could be compared, NaN if it is NaN.
        allowed: Bound of the error.
        own: PyTorch's error; None if the declared tolerance does not use it.
    """

    case: str
    status: CaseStatus
    error: float
    allowed: float
    own: float | None


@dataclass(frozen=True)
class ErrorChart:
    """All compared cases of one runtime.

    Attributes:
        runtime: Name of the runtime.
        unit: Unit of the numbers.
        rows: One row for each case.
    """

    runtime: str
    unit: str
    rows: tuple[ErrorRow, ...]


def error_charts(result: ParityResult) -> list[ErrorChart]:
    """Return a chart for each runtime that compared something."""
    charts = []
    for runtime in result.judged:
        cases = [case for case in result.cases if case.runtime == runtime and case.skipped is None]
        rows = tuple(_row(case, result.tolerances) for case in cases)
        charts.append(ErrorChart(runtime, _unit(result.tolerances), rows))
    return charts


def _unit(tolerances: Tolerances) -> str:
    if tolerances.closeness:
        return "error over what is allowed"
    return "relative L2 error" if tolerances.relative_l2 is not None else "error (ulp)"


def _row(case: CaseResult, tolerances: Tolerances) -> ErrorRow:
    output, status = worst_output(case, tolerances), case.status(tolerances)
    if output is None or output.problem is not None or output.unexpected:
        return ErrorRow(case.case, status, math.inf, math.nan, None)
    if tolerances.closeness:
        return ErrorRow(case.case, status, verdict.factor(output, tolerances), 1.0, None)
    if tolerances.relative_l2 is not None:
        budget = tolerances.relative_l2
        return ErrorRow(case.case, status, output.actual.relative_l2, budget, output.baseline.relative_l2)
    decisive = verdict.worst(output, tolerances)
    return ErrorRow(case.case, status, decisive.ulps, decisive.allowed, decisive.baseline_ulps)


def error_svg(shown: ErrorChart, name: str) -> str:
    """Return the chart as SVG; ``name`` is unique on the page."""
    rows = shown.rows
    with chart.figure(_FRAME_PIXELS + _ROW_PIXELS * len(rows)) as (drawn, axes):
        numbers = [n for row in rows for n in (row.error, row.allowed, row.own) if n is not None and math.isfinite(n)]
        least = _least(shown)
        far = max([10 * least, *numbers]) * 2.5
        places = range(len(rows))
        axes.set_xscale("log")
        axes.set_xlim(least / 1.6, far * 1.6)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_yticks(list(places), [chart.label(row.case) for row in rows])
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.xaxis.set_major_formatter(lambda number, _: f"{number:g}")
        axes.minorticks_off()
        axes.set_xlabel(shown.unit)
        for place, row in enumerate(rows):
            if math.isfinite(row.allowed):
                axes.plot(
                    [least / 1.6, row.allowed],
                    [place, place],
                    color=chart.RULE,
                    linewidth=7,
                    zorder=1,
                    solid_capstyle="butt",
                )
                axes.plot([row.allowed], [place], "|", color=chart.QUIET, markersize=10, zorder=2)
        own = [(max(row.own, least), place) for place, row in enumerate(rows) if row.own is not None]
        axes.plot(*_columns(own), "o", markerfacecolor="none", color=chart.INK, markersize=5.5, zorder=3)
        for status, color in _COLORS.items():
            these = [(place, row.error) for place, row in enumerate(rows) if row.status == status]
            known = [(min(max(e, least), far), place) for place, e in these if math.isfinite(e)]
            axes.plot(*_columns(known), "o", color=color, markersize=4.5, markeredgecolor="none", zorder=4)
            unknown = [(far, place) for place, e in these if not math.isfinite(e)]
            axes.plot(*_columns(unknown), "x", color=color, markersize=6, zorder=4)
        return chart.to_svg(drawn, name, _title(shown))


def _columns(points: Sequence[tuple[float, int]]) -> tuple[list[float], list[int]]:
    return [x for x, _ in points], [y for _, y in points]


def _least(shown: ErrorChart) -> float:
    """Return the left end of the axis: a constant for ulps, else half the smallest positive error or bound."""
    if shown.unit.endswith("(ulp)"):
        return _LEAST
    positive = [row.error for row in shown.rows if 0 < row.error < math.inf]
    return min([*positive, *(row.allowed for row in shown.rows if row.allowed > 0), 1.0]) / 2


def _title(shown: ErrorChart) -> str:
    failed = sum(row.status == "failed" for row in shown.rows)
    return (
        f"{shown.runtime}: {shown.unit} of {len(shown.rows)} cases on a logarithmic axis, beside what is allowed and "
        f"PyTorch's own; {failed} outside of what is allowed. The table below has the numbers."
    )
