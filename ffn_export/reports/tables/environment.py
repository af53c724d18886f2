"""The line under a console table that describes the environment of its numbers."""

from __future__ import annotations

from rich.text import Text

from ffn_export.reports.overview import environment_words
from ffn_export.reports.tables.layout import QUIET
from ffn_export.runtimes.environment import Environment


def environment_line(environment: Environment | None) -> Text:
    """Return processor, threads, system and versions in one line."""
    return Text(environment_words(environment), QUIET)
