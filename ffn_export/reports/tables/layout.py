"""Layout of every console table. Cells are ``Text``, which is never parsed for markup.

rich's own tables break words when they are narrowed, and a broken name cannot be searched for. Here a table that is
too wide is narrowed in two steps, and no word is broken in either:

1. Cells wrap between words, the widest column first.
2. Columns that do not fit even so move to indented lines below their row, the last column first.

Control characters are escaped before the layout, so that columns stay aligned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from ffn_export.core.plain_text import visible
from ffn_export.reports.console import Lines, wrapped
from ffn_export.reports.overview import environment_words
from ffn_export.runtimes.environment import Environment

GOOD, BAD, UNSURE, QUIET = "green", "bold red", "yellow", "dim"
# A table of more rows takes seconds to lay out, and nobody reads it.
MOST_ROWS = 1000

_GAP, _INDENT = 2, "    "


class Table:
    """A table.

    Args:
        headers: Title of each column, with the unit of its numbers; line breaks are kept.
        numbers: Headers of the right-aligned columns.
        rows: The first rows, as for :meth:`add`.
    """

    def __init__(self, *headers: str, numbers: Collection[str] = (), rows: Iterable[Sequence[str | Text]] = ()) -> None:
        self.headers, self.numbers = headers, numbers
        self.rows: list[tuple[Text, ...]] = []
        for row in rows:
            self.add(*row)

    def add(self, *cells: str | Text) -> None:
        """Add a row; a string is literal text."""
        self.rows.append(tuple(Text(visible(cell)) if isinstance(cell, str) else cell for cell in cells))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield one line of text for each line of the table; a column without any text is left out."""
        filled = [place for place in range(len(self.headers)) if any(row[place].plain for row in self.rows)]
        places = filled or range(len(self.headers))
        headers = tuple(self.headers[place] for place in places)
        rows = [tuple(row[place] for place in places) for row in self.rows[:MOST_ROWS]]
        titles = tuple(Text(header) for header in headers)
        widths = _widths([titles, *rows], options.max_width)
        yield from self._row(headers, titles, widths)
        yield Lines("─" * (sum(widths) + _GAP * (len(widths) - 1)))
        for row in rows:
            yield from self._row(headers, row, widths)
            for header, cell in zip(headers[len(widths) :], row[len(widths) :], strict=True):
                if cell.plain:
                    yield from _below(header, cell, options.max_width)
        if len(self.rows) > MOST_ROWS:
            yield Lines(f"and {len(self.rows) - MOST_ROWS} more, which the report in JSON has", QUIET)

    def _row(self, headers: Sequence[str], row: Sequence[Text], widths: Sequence[int]) -> Iterator[Text]:
        columns = [wrapped(cell, width) for cell, width in zip(row, widths, strict=False)]
        for line in range(max(map(len, columns), default=0)):
            shown = Lines()
            for place, (column, width) in enumerate(zip(columns, widths, strict=True)):
                part = column[line] if line < len(column) else Text()
                padding = " " * (width - cell_len(part.plain))
                right = headers[place] in self.numbers
                shown.append_text(Text.assemble(padding, part) if right else Text.assemble(part, padding))
                shown.append(" " * _GAP if place < len(widths) - 1 else "")
            shown.rstrip()
            yield shown


@dataclass(frozen=True)
class Marked:
    """Text behind a mark, with its further lines indented below its first."""

    mark: str
    text: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        indent = f"{self.mark} "
        for line in wrapped(Text(visible(self.text.plain), self.text.style), options.max_width - cell_len(indent)):
            yield Lines.assemble((indent, self.text.style), line)
            indent = " " * (cell_len(self.mark) + 3)


def environment_line(environment: Environment | None) -> Text:
    """Return processor, threads, system and versions in one line, for the end of a table."""
    return Text(environment_words(environment), QUIET)


def _widths(grid: Sequence[Sequence[Text]], room: int) -> list[int]:
    """Return the widths of the columns that fit beside each other; the first one always does."""
    columns = list(zip(*grid, strict=True))
    natural = [max(map(_longest_line, column)) for column in columns]
    least = [max(map(_longest_word, column)) for column in columns]
    beside = len(columns)
    while beside > 1 and sum(least[:beside]) + _GAP * (beside - 1) > room:
        beside -= 1
    widths = natural[:beside]
    too_wide = sum(widths) + _GAP * (beside - 1) - room
    while too_wide > 0:
        slack = [width - few for width, few in zip(widths, least, strict=False)]
        if max(slack) <= 0:
            break
        widest = max(range(beside), key=lambda place: (slack[place] > 0, widths[place]))
        others = (width for place, width in enumerate(widths) if place != widest and slack[place] > 0)
        step = min(slack[widest], too_wide, max(1, widths[widest] - max(others, default=0)))
        widths[widest] -= step
        too_wide -= step
    return widths


def _longest_line(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split("\n")))


def _longest_word(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split()), default=0)


def _below(header: str, cell: Text, room: int) -> Iterator[Text]:
    """Yield a cell that has no column, with its header, on indented lines."""
    said = Text.assemble((" ".join(header.split()) + ": ", QUIET), cell) if header else cell
    for line in wrapped(said, room - len(_INDENT)):
        yield Lines.assemble(_INDENT, line)
