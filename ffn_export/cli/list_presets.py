"""``ffn-export list``."""

from __future__ import annotations

import click

from ffn_export.cli.help import Command
from ffn_export.cli.options import common
from ffn_export.cli.report_files import json_option, show


@click.command(
    "list",
    cls=Command,
    page="docs/commands.md",
    examples=(
        "list",
        "list --json -",
        "list --json presets.json",
    ),
)
@json_option
@common
def command(json_path: str | None) -> None:
    """List the presets, with shape and source."""
    from ffn_export.modules.presets import PRESETS
    from ffn_export.reports.tables import presets_table

    rows = [
        (p.name, ", ".join(f"{name}:{spec}" for name, spec in p.inputs.items()), p.summary, p.source)
        for p in PRESETS.values()
    ]
    show({"presets": [preset.to_dict() for preset in PRESETS.values()]}, presets_table(rows), json_path)
