"""Draw how many real graphs each optimiser fuses completely, from the table of the page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

_NAMES = {
    "ffn_export, ort": "ffn_export",
    "ORT session": "ONNX Runtime",
    "onnxscript": "onnxscript",
    "ORT transformers": "onnxruntime.transformers",
}


def complete(page: str) -> tuple[dict[str, int], int]:
    """Return the number of complete and right graphs of each optimiser, and the number of graphs."""
    header, row = re.findall(r"^\|(.*ffn_export, ort.*|.*graphs complete and right.*)\|$", page, re.MULTILINE)
    names = [each.strip() for each in header.split("|")][1:]
    counts = [each.strip().split("/") for each in row.split("|")[1:]]
    return {_NAMES[name]: int(count) for name, (count, _) in zip(names, counts, strict=True)}, int(counts[0][1])


def draw(counts: Mapping[str, int], graphs: int, path: Path) -> None:
    """Write the bars as an SVG, which has the same bytes for the same numbers."""
    names = sorted(counts, key=lambda name: counts[name])
    with mpl.rc_context({"svg.hashsalt": "ffn_export", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure, axes = plt.subplots(figsize=(7, 2.2), layout="constrained")
        colours = ["#0b6e4f" if name == "ffn_export" else "#9aa5b1" for name in names]
        bars = axes.barh(names, [counts[name] for name in names], color=colours)
        axes.bar_label(bars, padding=4)
        axes.set_xlim(0, graphs)
        axes.set_title(f"Real graphs fused completely and right, of {graphs}", loc="left", fontsize=11)
        axes.xaxis.set_visible(False)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None}, facecolor="white")
        plt.close(figure)
