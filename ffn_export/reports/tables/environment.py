"""The line under a table that says what its numbers were measured on."""

from __future__ import annotations

from rich.text import Text

from ffn_export.reports.tables.layout import QUIET
from ffn_export.runtimes.environment import Environment


def environment_line(environment: Environment | None) -> Text:
    """Return processor, threads, system and versions in one line."""
    if environment is None:
        return Text("environment not recorded", QUIET)
    threads = f"{environment.threads} thread{'' if environment.threads == 1 else 's'}"
    versions = [f"{package} {version}" for package, version in environment.versions.items()]
    return Text(", ".join([environment.processor, threads, environment.system, *versions]), QUIET)
