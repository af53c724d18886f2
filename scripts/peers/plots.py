"""Latency over tokens as SVG files, both axes logarithmic: the same bytes for the same results."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from peers.result import BARE, OURS, Cell
from peers.tables import labelled

_STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "ffn-export", "font.family": "sans-serif", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "axes.titlesize": 10,
}  # fmt: skip
# Of Okabe and Ito's palette, which the colour-blind can tell apart; ours is the black one.
_STYLES: Mapping[str, tuple[str, str]] = {
    "torch": ("#d55e00", "s"), "torch.compile": ("#d55e00", "v"), "ort": ("#0072b2", "s"),
    "onnxscript": ("#0072b2", "v"), "ort-transformers": ("#0072b2", "^"), "openvino": ("#009e73", "s"),
    "openvino-bf16": ("#009e73", "v"), OURS: ("#000000", "o"), "ours-again": ("#000000", "|"),
    "ours-tuned": ("#000000", "*"),
    "ours-chunked": ("#000000", "x"), "ours-8bit": ("#cc79a7", "D"), BARE: ("#999999", "."),
}  # fmt: skip
_OTHER = ("#56b4e9", "P")


def drawn(cells: Sequence[Cell]) -> dict[str, str]:
    """Return file name -> SVG: one for each preset and number of threads, a panel for each pair of widths."""
    plots = {}
    for preset, threads in dict.fromkeys((cell.model, cell.threads) for cell in cells):
        of_plot = [cell for cell in cells if (cell.model, cell.threads) == (preset, threads)]
        plots[file_name(preset, threads)] = _svg(of_plot)
    return plots


def file_name(preset: str, threads: int) -> str:
    return f"{preset}-{threads}-{'thread' if threads == 1 else 'threads'}.svg"


def _svg(cells: Sequence[Cell]) -> str:
    panels = list(dict.fromkeys(cell.name for cell in cells))
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(1 + 3.3 * len(panels), 4.2), layout="constrained", facecolor="white")
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for panel, name in zip(axes, panels, strict=True):
            _panel(panel, sorted((c for c in cells if c.name == name), key=lambda c: c.tokens), name)
        axes[0].set_ylabel("milliseconds, median")
        lines = {line.get_label(): line for panel in axes for line in panel.get_lines()}
        figure.legend(lines.values(), list(map(str, lines)), loc="outside lower center", ncols=2 * len(panels))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _panel(axes: Axes, cells: Sequence[Cell], title: str) -> None:
    for name in dict.fromkeys(timing.runtime for cell in cells for timing in cell.timings):
        points = [(cell.tokens, timing.median * 1e3) for cell in cells if (timing := cell.timing(name)) is not None]
        color, marker = _STYLES.get(name, _OTHER)
        is_ours = name.startswith(OURS)
        axes.plot(*zip(*points, strict=True), color=color, marker=marker, markersize=4, label=labelled(name),
                  linewidth=1.8 if is_ours else 1, zorder=3 if is_ours else 2)  # fmt: skip
    limits = [(cell.tokens, cell.limit * 1e3) for cell in cells if cell.limit is not None]
    if limits:
        axes.plot(*zip(*limits, strict=True), color="#555555", linestyle=":", linewidth=1.4, label="limit")
    counts = sorted({cell.tokens for cell in cells})
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(counts, labels=[f"{count}" for count in counts], rotation=60)
    axes.yaxis.set_major_formatter(lambda number, _: f"{number:g}")
    axes.minorticks_off()
    axes.grid(visible=True, linewidth=0.4, color="#dddddd")
    axes.set_xlabel("tokens")
    axes.set_title(title)
