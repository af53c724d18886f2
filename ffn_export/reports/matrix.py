"""The cells of a matrix as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ffn_export.core.matrix_cell import STATUS, Cell


def cell_line(cell: Cell) -> str:
    """Return a cell in one line: its verdict, place, error and time, and why it did not pass."""
    parts = (figures_words(cell), f"{cell.seconds:.1f} s")
    told = f": {cell.message}" if cell.message else ""
    return f"{cell.verdict} {cell.title}, {', '.join(filter(None, parts))}{told}"


def figures_words(cell: Cell) -> str:
    """Return the number that a reader looks for first: the error, or the times over PyTorch's."""
    if "worst_ulps" in cell.figures:
        return f"{cell.figures['worst_ulps']:.2f} ulp"
    ratios = [value for name, value in cell.figures.items() if name.startswith("ratio ")]
    return f"{min(ratios):.2f} to {max(ratios):.2f} of PyTorch's time" if ratios else ""


def summary_line(cells: Sequence[Cell], seconds: float) -> str:
    """Return the number of cells of each verdict, in one line."""
    counts = Counter(cell.verdict for cell in cells)
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in STATUS if counts[verdict]) or "none"
    return f"{len(cells)} cells in {seconds:.0f} s: {words}"
