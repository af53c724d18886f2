"""``ffn-export fuse``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ffn_export.cli.help import Command
from ffn_export.cli.limits import hold, limit_options
from ffn_export.cli.options import (
    PATH,
    check_option,
    common,
    portable_functions_option,
    require_fusion_option,
    target_option,
)
from ffn_export.cli.report_files import REPORT_FILE
from ffn_export.cli.state import State
from ffn_export.reports.streams import say

if TYPE_CHECKING:
    from ffn_export.fusion.report import SiteKind


@click.command(
    "fuse",
    cls=Command,
    page="docs/fusion.md",
    examples=(
        "fuse model.onnx -o fused.onnx",
        "fuse model.onnx -o fused.onnx --target portable --require-fusion feed_forward=12",
        "fuse model.onnx -o fused.onnx --report -",
    ),
)
@click.argument("model", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The ONNX file to write.")
@click.option(
    "--report",
    "report_path",
    type=REPORT_FILE,
    metavar="FILE",
    help="Write the fusion report as JSON; - for standard output.",
)
@target_option
@require_fusion_option
@check_option
@portable_functions_option
@limit_options
@common
@click.pass_obj
def command(
    state: State,
    /,
    model: Path,
    output: Path,
    report_path: str | None,
    target: str,
    require_fusion: dict[SiteKind, int],
    check: bool,
    portable_functions: bool,
) -> int:
    """Fuse the feed-forward and norm nodes of an ONNX model.

    The output is always written; --require-fusion makes the exit status a gate. Both graphs are run where that
    is possible here, within a minute, and a site that differs is undone.
    """
    from ffn_export.cli.model_file import check_output
    from ffn_export.core import onnx_file
    from ffn_export.fusion.pipeline import fusion_failures
    from ffn_export.fusion_check.check import fuse_checked
    from ffn_export.reports.json_report import write_json
    from ffn_export.reports.tables import fusion_table

    hold(state, [model])
    check_output(output)
    fused, report = fuse_checked(onnx_file.load(model), target, check, portable_functions=portable_functions)
    onnx_file.save(fused, output)
    state.console.print(fusion_table(report, verbose=state.verbose))
    if report_path is not None:
        write_json(report.to_dict(), report_path)
    failures = fusion_failures(report, require_fusion)
    for failure in failures:
        say(f"ffn-export: {failure}")
    return 1 if failures else 0
