"""Rows as a Markdown table, for a page or a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """Return a table.

    Args:
        headers: Title of each column, with the unit of its numbers.
        rows: The cells.
        numbers: The headers of the columns that are aligned right.
    """
    rule = ["---:" if header in numbers else "---" for header in headers]
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in (headers, rule, *rows))


def _cell(text: str) -> str:
    """A pipe would end the cell, and a line break the table."""
    return " ".join(text.replace("|", "\\|").split())
