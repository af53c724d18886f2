"""``ffn-export export``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from ffn_export.cli.options import common, opset_option, precision_options, read_npz, spec_options
from ffn_export.cli.state import State

_ONE_BY_ONE = 12


@click.command("export")
@click.argument("spec")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The ONNX file to write.")
@click.option("--name", help="Name of the graph.")
@opset_option
@precision_options
@spec_options
@common
@click.pass_obj
def command(
    state: State,
    /,
    spec: str,
    output: Path,
    name: str | None,
    opset: int,
    dtype: str,
    keep_io: bool,
    inputs: tuple[str, ...],
    samples: Path | None,
    seed: int | None,
    task: str | None,
    trust: bool,
) -> int:
    """Export SPEC to an ONNX file with dynamic axes, and check it.

    SPEC is a preset, package.module:factory, hf:DIR for a Hugging Face model, or a .pt2 file, which can run
    code when it is opened and needs --trust.

    Example: ffn-export export my.models:encoder --input "ids:int64[batch,seq<=512]" -o encoder.onnx
    """
    from ffn_export import api
    from ffn_export.cli.model_file import check_output
    from ffn_export.cli.progress import progress
    from ffn_export.exporter import onnx_file
    from ffn_export.reports.console import stderr_console

    arrays = read_npz(samples)
    check_output(output)
    console = stderr_console(quiet=state.quiet)
    with progress(console, quiet=state.quiet) as report:
        report(f"exporting {spec} to opset {opset}")
        model = api.export(
            spec,
            inputs or None,
            samples=arrays,
            opset=opset,
            dtype=dtype,
            keep_io=keep_io,
            name=name,
            seed=seed,
            task=task,
            trust=trust,
        )
        onnx_file.save(model, output)
    console.print(f"wrote {output}: opset {opset}, {_listed([node.op_type for node in model.graph])}")
    return 0


def _listed(operators: list[str]) -> str:
    """Name the nodes one by one, or count them by operator where they are more than a line holds."""
    if len(operators) <= _ONE_BY_ONE:
        return ", ".join(operators)
    counts = ", ".join(f"{count} {operator}" for operator, count in Counter(operators).most_common())
    return f"{len(operators)} nodes: {counts}"
