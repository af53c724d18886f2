"""``ffn-export diff``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ffn_export.cli.help import Command
from ffn_export.cli.limits import hold, limit_options
from ffn_export.cli.model_file import open_argument
from ffn_export.cli.options import PATH, common
from ffn_export.cli.report_files import json_option, show
from ffn_export.cli.state import State

if TYPE_CHECKING:
    from ffn_export.inspection.difference import Difference


@click.command(
    "diff",
    short_help="Show how two models differ: weights, nodes, interface.",
    cls=Command,
    page="docs/commands.md",
    examples=(
        "diff model.onnx fused.onnx",
        "diff exported/bert-ffn exported/bert-ffn-tuned",
        "diff old.onnx new.onnx --exit-code --json -",
    ),
)
@click.argument("a", type=PATH)
@click.argument("b", type=PATH)
@json_option
@click.option("--exit-code", is_flag=True, help="Exit with 1 where the models differ, as git diff does.")
@limit_options
@common
@click.pass_obj
def command(state: State, /, a: Path, b: Path, json_path: str | None, exit_code: bool) -> int:
    """Show how the models A and B differ.

    Each is an ONNX file or a bundle. Weights are matched by content, so a new name or a transposed layout is
    no difference. Neither model is run.
    """
    from ffn_export.reports.tables import difference_table

    hold(state, [a, b])
    difference = _compare(a, b)
    show(difference.to_dict(), difference_table(difference), json_path)
    return 1 if exit_code and difference.differs else 0


def _compare(a: Path, b: Path) -> Difference:
    """Compare the graphs under their given names, with the parity and latency from the manifests."""
    from ffn_export.inspection.compare import compare

    (file_a, manifest_a), (file_b, manifest_b) = open_argument(a), open_argument(b)
    difference = compare(file_a, file_b)
    side_a, side_b = (
        replace(side, model=str(given), parity=m.parity if m else None, latency=m.latency if m else None)
        for side, given, m in ((difference.a, a, manifest_a), (difference.b, b, manifest_b))
    )
    return replace(difference, a=side_a, b=side_b)
