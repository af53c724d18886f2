"""``ffn-export inspect``."""

from __future__ import annotations

from pathlib import Path

import click

from ffn_export.cli.help import Command
from ffn_export.cli.limits import hold, limit_options
from ffn_export.cli.model_file import open_argument
from ffn_export.cli.options import PATH, common, target_option
from ffn_export.cli.report_files import json_option, show
from ffn_export.cli.state import State


@click.command(
    "inspect",
    short_help="Show what a model holds, and why a site is not fused.",
    cls=Command,
    page="docs/fusion.md",
    examples=(
        "inspect model.onnx",
        "inspect model.onnx --target portable -v",
        "inspect exported/bert-ffn --json -",
    ),
)
@click.argument("model", type=PATH)
@json_option
@target_option
@limit_options
@common
@click.pass_obj
def command(state: State, /, model: Path, json_path: str | None, target: str) -> int:
    """Show what MODEL holds, and what fusing would make of its sites.

    MODEL is an ONNX file or a bundle. It is not run, and it may be without its external data.
    """
    from ffn_export.inspection.inspect import inspect
    from ffn_export.reports.tables import inspection_table

    hold(state, [model])
    path, _ = open_argument(model)
    inspection = inspect(path, target)
    show(inspection.to_dict(), inspection_table(inspection, verbose=state.verbose), json_path)
    return 0
