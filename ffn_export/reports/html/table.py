"""A table of the page as plain text, which the template renders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A cell.

    Attributes:
        text: Content.
        status: Verdict that sets the colour; empty for none.
        is_number: Whether it is right-aligned.
    """

    text: str
    status: str = ""
    is_number: bool = False


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row is its heading.

    Attributes:
        caption: Caption.
        headers: Title of each column, with the unit of its numbers.
        rows: Cells of each row.
    """

    caption: str
    headers: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]


def table(
    caption: str,
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[str] = (),
    verdicts: Sequence[str] = (),
) -> Table:
    """Make a table without its empty columns; columns of numbers and of verdicts are named by their headers."""
    filled = list(rows)
    shown = [column for column in range(len(headers)) if any(row[column] for row in filled)]
    titles = tuple(Cell(headers[column], is_number=headers[column] in numbers) for column in shown)
    cells = tuple(tuple(_cell(headers[c], row[c], numbers, verdicts) for c in shown) for row in filled)
    return Table(caption, titles, cells)


def _cell(header: str, text: str, numbers: Sequence[str], verdicts: Sequence[str]) -> Cell:
    status = text.replace(" ", "-") if header in verdicts else ""
    return Cell(text, status, is_number=header in numbers)
