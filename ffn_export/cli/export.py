"""``ffn-export export``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ffn_export.cli.help import Command
from ffn_export.cli.options import PATH, common, input_option, opset_option, read_npz, samples_option, source_options
from ffn_export.cli.state import State

if TYPE_CHECKING:
    from ffn_export.core.source_options import SourceOptions

_ONE_BY_ONE = 12


@click.command(
    "export",
    cls=Command,
    page="docs/commands.md",
    examples=(
        "export bert-ffn -o model.onnx",
        'export my.models:encoder --input "ids:int64[batch,seq<=512]" -o encoder.onnx',
        "export hf:./my-model --dtype float16 --keep-io -o half.onnx",
    ),
)
@click.argument("spec")
@click.option("-o", "--output", type=PATH, required=True, help="The ONNX file to write.")
@click.option("--name", help="Name of the graph.")
@opset_option
@input_option
@samples_option
@source_options
@common
@click.pass_obj
def command(
    state: State,
    /,
    spec: str,
    output: Path,
    name: str | None,
    opset: int,
    inputs: tuple[str, ...] | None,
    samples: Path | None,
    source: SourceOptions,
) -> int:
    """Export SPEC to an ONNX file with dynamic axes, and check it.

    SPEC is a preset, package.module:factory, hf:DIR for a Hugging Face model, or a .pt2 file, which can run
    code when it is opened and needs --trust.
    """
    import ffn_export as fx
    from ffn_export.cli.model_file import check_output
    from ffn_export.core import onnx_file

    arrays = read_npz(samples)
    check_output(output)
    with state.progress() as report:
        report(f"exporting {spec} to opset {opset}")
        model = fx.export(spec, inputs, samples=arrays, opset=opset, name=name, **source)
        onnx_file.save(model, output)
    state.console.print(f"wrote {output}: opset {opset}, {_listed([node.op_type for node in model.graph])}")
    return 0


def _listed(operators: list[str]) -> str:
    """List the nodes, or count them by operator if there are too many for a line."""
    if len(operators) <= _ONE_BY_ONE:
        return ", ".join(operators)
    counts = ", ".join(f"{count} {operator}" for operator, count in Counter(operators).most_common())
    return f"{len(operators)} nodes: {counts}"
