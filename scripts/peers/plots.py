"""Latency over tokens as SVG files, all axes logarithmic: the same bytes for the same results.

Times span four decades, on which the competitors are one line. What tells them apart is below: their times over ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import dot_chart
from peers.result import BARE, FLOAT32_PEERS, OURS, Cell
from peers.tables import labelled

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ffn-export",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "axes.titlesize": 10,
}
# Of Okabe and Ito's palette, which the colour-blind can tell apart; ours is the black one.
_STYLES: Mapping[str, tuple[str, str]] = {
    "torch": ("#d55e00", "s"),
    "torch.compile": ("#d55e00", "v"),
    "ort": ("#0072b2", "s"),
    "onnxscript": ("#0072b2", "v"),
    "ort-transformers": ("#0072b2", "^"),
    "openvino": ("#009e73", "s"),
    "openvino-bf16": ("#009e73", "v"),
    OURS: ("#000000", "o"),
    "ours-again": ("#000000", "|"),
    "ours-tuned": ("#000000", "*"),
    "ours-chunked": ("#000000", "x"),
    "ours-8bit": ("#cc79a7", "D"),
    "ours-native": ("#e69f00", "o"),
    "ours-native-bf16": ("#e69f00", "v"),
    "ours-native-int8": ("#e69f00", "D"),
    BARE: ("#999999", "."),
}
_OTHER = ("#56b4e9", "P")
# Marks of the lower panels; those are drawn that lie within what was measured.
_RATIOS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0)

Point = tuple[int, float]


def drawn(cells: Sequence[Cell]) -> dict[str, str]:
    """Return file name -> SVG: one for each preset and number of threads, a panel for each pair of widths."""
    plots = {}
    for preset, threads in dict.fromkeys((cell.model, cell.threads) for cell in cells):
        of_plot = [cell for cell in cells if (cell.model, cell.threads) == (preset, threads)]
        plots[file_name(preset, threads)] = _svg(of_plot)
    return plots


def summary(cells: Sequence[Cell]) -> str:
    """Return the times of ours over those of each tool that computes in float32, one thread, as an SVG."""
    of_thread = [cell for cell in cells if cell.threads == 1]
    found = {name: [r.value for cell in of_thread if (r := cell.ratio(name))] for name in FLOAT32_PEERS}
    shown = {name: values for name, values in found.items() if values}
    return dot_chart.svg(shown, "time of ours over that of the tool: left of 1, ours is faster")


def file_name(preset: str, threads: int) -> str:
    return f"{preset}-{threads}-{'thread' if threads == 1 else 'threads'}.svg"


def _svg(cells: Sequence[Cell]) -> str:
    panels = list(dict.fromkeys(cell.name for cell in cells))
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(1 + 3.3 * len(panels), 7.0), layout="constrained", facecolor="white")
        times, ratios = figure.subplots(2, len(panels), sharex="col", sharey="row", squeeze=False)
        for above, below, name in zip(times, ratios, panels, strict=True):
            of_panel = sorted((c for c in cells if c.name == name), key=lambda c: c.tokens)
            _times(above, of_panel)
            _ratios(below, of_panel)
            above.set_title(name)
            below.set_xlabel("tokens")
        _mark_ratios(ratios)
        times[0].set_ylabel("milliseconds, median")
        ratios[0].set_ylabel("time over ours\n(above 1: slower than ours)")
        lines = {line.get_label(): line for panel in times for line in panel.get_lines()}
        figure.legend(lines.values(), list(map(str, lines)), loc="outside lower center", ncols=2 * len(panels))
        return dot_chart.svg_text(figure)


def _times(axes: Axes, cells: Sequence[Cell]) -> None:
    for name in _competitors(cells):
        _line(axes, name, [(cell.tokens, timing.median * 1e3) for cell in cells if (timing := cell.timing(name))])
    limits = [(cell.tokens, cell.limit * 1e3) for cell in cells if cell.limit is not None]
    if limits:
        axes.plot(*zip(*limits, strict=True), color="#555555", linestyle=":", linewidth=1.4, label="limit")
    _logarithmic(axes, cells)
    axes.yaxis.set_major_formatter(lambda number, _: f"{number:g}")


def _ratios(axes: Axes, cells: Sequence[Cell]) -> None:
    """Draw what was measured in turn, so that what slowed the machine for a while is in neither line."""
    for name in _competitors(cells):
        points = [(cell.tokens, 1 / ratio.value) for cell in cells if (ratio := cell.ratio(name)) is not None]
        if points:
            _line(axes, name, points)
    axes.axhline(1.0, color=_STYLES[OURS][0], linewidth=1.8, zorder=1)
    _logarithmic(axes, cells)


def _mark_ratios(panels: Sequence[Axes]) -> None:
    """Mark the axis that the panels share, which every one of them has widened for its own lines."""
    least, most = panels[0].get_ylim()
    marks = [mark for mark in _RATIOS if least <= mark <= most]
    panels[0].set_yticks(marks, labels=[f"{mark:g}" for mark in marks])


def _competitors(cells: Sequence[Cell]) -> Iterable[str]:
    return dict.fromkeys(timing.runtime for cell in cells for timing in cell.timings)


def _line(axes: Axes, name: str, points: Sequence[Point]) -> None:
    color, marker = _STYLES.get(name, _OTHER)
    is_ours = name.startswith(OURS)
    axes.plot(
        *zip(*points, strict=True),
        color=color,
        marker=marker,
        markersize=4,
        label=labelled(name),
        linewidth=1.8 if is_ours else 1,
        zorder=3 if is_ours else 2,
    )


def _logarithmic(axes: Axes, cells: Sequence[Cell]) -> None:
    counts = sorted({cell.tokens for cell in cells})
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(counts, labels=[f"{count}" for count in counts], rotation=60)
    axes.minorticks_off()
    axes.grid(visible=True, linewidth=0.4, color="#dddddd")
