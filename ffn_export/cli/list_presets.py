"""``ffn-export list``."""

from __future__ import annotations

import click

from ffn_export.cli.options import common


@click.command("list")
@common
def command() -> None:
    """List the presets, with shape and source.

    Example: ffn-export list
    """
    from ffn_export.modules.presets import PRESETS
    from ffn_export.reports.console import stdout_console
    from ffn_export.reports.tables import presets_table

    rows = [
        (p.name, ", ".join(f"{name}:{spec}" for name, spec in p.inputs.items()), p.summary, p.source)
        for p in PRESETS.values()
    ]
    stdout_console().print(presets_table(rows))
