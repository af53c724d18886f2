"""A chart of ratios: a dot for the geometric mean of each row, a line from its smallest number to its largest."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from statistics import geometric_mean
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ffn-export",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def svg(rows: Mapping[str, Sequence[float]], label: str) -> str:
    """Return the chart, the first row at the top; the same bytes for the same numbers."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.4, 0.7 + 0.36 * max(1, len(rows))), layout="constrained", facecolor="white")
        axes = figure.subplots()
        for row, values in enumerate(reversed(list(rows.values()))):
            mean = geometric_mean(values)
            axes.plot([min(values), max(values)], [row, row], color="#9aa5b1", linewidth=2, solid_capstyle="round")
            axes.plot([mean], [row], color="#0b6e4f", marker="o", markersize=7)
            axes.annotate(f"{mean:.2f}", (mean, row), (0, 7), textcoords="offset points", ha="center", fontsize=8)
        axes.set_yticks(range(len(rows)), labels=list(rows)[::-1])
        axes.set_ylim(-0.5, max(1, len(rows)) - 0.2)
        axes.axvline(1.0, color="#000000", linewidth=1)
        axes.set_xlabel(label)
        return svg_text(figure)


def svg_text(figure: Figure) -> str:
    """Return a figure as SVG without its date and without spaces at the ends of lines."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
