"""Chart of the errors of all cases over what is allowed: a line for each runtime, and one for PyTorch's own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.result import CaseResult, CaseStatus, ParityResult
from ffn_export.reports.html import chart
from ffn_export.reports.overview import worst_output

_LEAST = 1e-3  # where the axis ends at the latest: a logarithmic axis has no zero
_MOST_RUNTIMES = chart.MOST_LINES - 1
_COLORS: dict[CaseStatus, str] = {"warned": chart.UNSURE, "failed": chart.BAD}


@dataclass(frozen=True)
class ErrorPoint:
    """A case.

    Attributes:
        case: Name of the case.
        status: Verdict of the case.
        share: Error over what is allowed; infinite if nothing could be compared or a number is not finite.
        own: PyTorch's own error over what is allowed; None if the declared tolerance does not use it.
    """

    case: str
    status: CaseStatus
    share: float
    own: float | None


@dataclass(frozen=True)
class ErrorLine:
    """The compared cases of one runtime, the worst first."""

    runtime: str
    points: tuple[ErrorPoint, ...]


def error_lines(result: ParityResult) -> list[ErrorLine]:
    """Return a line for each runtime that compared something, that of the largest error first."""
    lines = []
    for runtime in result.judged:
        points = [_point(c, result) for c in result.cases if c.runtime == runtime and c.skipped is None]
        lines.append(ErrorLine(runtime, tuple(sorted(points, key=lambda point: -point.share))))
    return sorted(lines, key=lambda line: -line.points[0].share if line.points else 0.0)


def _point(case: CaseResult, result: ParityResult) -> ErrorPoint:
    tolerances, status = result.tolerances.for_case(case.runtime, case.values), case.status(result.tolerances)
    output = worst_output(case, tolerances)
    if output is None or output.problem is not None or output.unexpected:
        return ErrorPoint(case.case, status, math.inf, None)
    share = verdict.factor(output, tolerances)
    share = math.inf if math.isnan(share) else share
    if tolerances.closeness_of(output.output) is not None:
        return ErrorPoint(case.case, status, share, None)
    if tolerances.relative_l2 is not None:
        own = output.baseline.relative_l2 / tolerances.relative_l2 if tolerances.relative_l2 else math.inf
        return ErrorPoint(case.case, status, share, own)
    decisive = verdict.worst(output, tolerances)
    return ErrorPoint(case.case, status, share, decisive.baseline_ulps / decisive.allowed if decisive.allowed else None)


def error_svg(lines: list[ErrorLine]) -> str:
    """Return the chart as SVG, of the runtimes with the largest errors."""
    shown = [line for line in lines if line.points][:_MOST_RUNTIMES]
    finite = [p.share for line in shown for p in line.points if math.isfinite(p.share)]
    own = sorted(_own(shown), reverse=True)
    positive = [share for share in (*finite, *own) if share > 0]
    least = max(_LEAST, min([1.0, *positive]) / 2)
    far = max([2.0, *finite]) * 2
    with chart.figure() as (drawn, axes):
        axes.set_yscale("log")
        axes.set_ylim(least / 1.6, far * 1.6)
        axes.yaxis.set_major_formatter(lambda number, _: f"{number:g}")
        axes.minorticks_off()
        axes.grid(axis="y")
        axes.axhline(1.0, color=chart.BAD, linewidth=1, linestyle="--")
        ends = [(1.0, "allowed", chart.BAD)]
        for line, color in zip(shown, chart.SERIES, strict=False):
            y = [min(max(point.share, least), far) for point in line.points]
            axes.plot(range(1, len(y) + 1), y, color=color, linewidth=1.6, marker="o", markersize=2.5)
            for place, point in enumerate(line.points):
                if point.status in _COLORS:
                    marker = "o" if math.isfinite(point.share) else "x"
                    axes.plot([place + 1], [y[place]], marker, color=_COLORS[point.status], markersize=6)
            ends.append((y[-1], line.runtime, color))
        if own:
            y = [min(max(share, least), far) for share in own]
            axes.plot(range(1, len(y) + 1), y, color=chart.QUIET, linewidth=1.6)
            ends.append((y[-1], "PyTorch itself", chart.QUIET))
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("cases, the worst first")
        chart.label_ends(axes, ends)
        return chart.to_svg(drawn, "errors", _title(shown))


def _own(lines: list[ErrorLine]) -> Iterator[float]:
    """Yield PyTorch's own errors on the cases of the first runtime."""
    for point in lines[0].points if lines else ():
        if point.own is not None and math.isfinite(point.own):
            yield point.own


def _title(lines: list[ErrorLine]) -> str:
    found = (
        f"{line.runtime}: {len(line.points)} cases, the worst {line.points[0].share:.2f} of what is allowed"
        for line in lines
    )
    return f"Error over what is allowed, logarithmic. {'; '.join(found)}. The tables below have the numbers."
