"""Layout of every console table. Cells are ``Text``, which rich never parses for markup.

Control characters are escaped before the layout, so that columns stay aligned.
"""

from __future__ import annotations

from collections.abc import Collection, Sized

from rich import box
from rich.table import Table
from rich.text import Text

from ffn_export.core.plain_text import visible
from ffn_export.reports.console import Lines

GOOD, BAD, UNSURE, QUIET = "green", "bold red", "yellow", "dim"
# A table of more rows takes seconds to lay out, and nobody reads it.
MOST_ROWS = 1000


def new_table(*headers: str, numbers: Collection[str] = ()) -> Table:
    """Return an empty table.

    Args:
        headers: Title of each column, with the unit of its numbers.
        numbers: Headers of the right-aligned columns.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for header in headers:
        table.add_column(Lines(header), justify="right" if header in numbers else "left", overflow="fold")
    return table


def add_row(table: Table, *cells: str | Text) -> None:
    """Add a row; a string is literal text."""
    table.add_row(*(Text(visible(cell)) if isinstance(cell, str) else cell for cell in cells))


def left_out(rows: Sized) -> tuple[Text, ...]:
    """Return a line for the rows beyond ``MOST_ROWS``, if there are any."""
    more = len(rows) - MOST_ROWS
    return (Text(f"and {more} more, which the report in JSON has", QUIET),) if more > 0 else ()
