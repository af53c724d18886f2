"""The cells of a matrix as one HTML page with filters, which needs no network."""

from __future__ import annotations

from collections.abc import Sequence

from ffn_export.core.matrix_cell import Cell, exit_status
from ffn_export.reports.html.page import template
from ffn_export.reports.matrix import figures_words, summary_line

_FILTERS = ("model", "target", "dtype", "runtime", "processor", "action", "verdict")


def matrix_page(cells: Sequence[Cell]) -> str:
    """Return the page; the same cells give the same bytes."""
    filters = {name: sorted({getattr(cell, name) for cell in cells} - {""}) for name in _FILTERS}
    return template("matrix.html.jinja").render(
        cells=[(cell, figures_words(cell), _details(cell)) for cell in cells],
        filters={name: values for name, values in filters.items() if values},
        passed=exit_status(cells) == 0,
        warned=any(cell.verdict == "warned" for cell in cells),
        summary=summary_line(cells, sum(cell.seconds for cell in cells)),
    )


def _details(cell: Cell) -> str:
    return ", ".join(f"{name} {value:.6g}" for name, value in cell.figures.items())
