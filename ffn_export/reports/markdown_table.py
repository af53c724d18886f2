"""Markdown tables, for a page or a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """Return a Markdown table.

    Args:
        headers: Title of each column, with the unit of its numbers.
        rows: Cells of each row.
        numbers: Headers of the right-aligned columns.
    """
    rule = ["---:" if header in numbers else "---" for header in headers]
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in (headers, rule, *rows))


def _cell(text: str) -> str:
    """Escape pipes, which would end the cell, and remove line breaks, which would end the table."""
    return " ".join(text.replace("|", "\\|").split())
