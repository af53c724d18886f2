"""``ffn-export quantize``."""

from __future__ import annotations

from pathlib import Path

import click

from ffn_export.cli.help import Command
from ffn_export.cli.limits import hold, limit_options
from ffn_export.cli.options import common, read_npz, runtime_option, threads_option
from ffn_export.cli.quantization_options import quantization_of, quantization_options
from ffn_export.cli.report_files import json_option
from ffn_export.cli.state import State
from ffn_export.quantization.options import BITS, DEFAULT_BUDGET
from ffn_export.reports.streams import say


@click.command(
    "quantize",
    cls=Command,
    page="docs/commands.md",
    examples=(
        "quantize model.onnx -o q8.onnx --bits 8",
        "quantize model.onnx -o q8.onnx --samples activations.npz --budget 0.01",
        "quantize exported/bert-ffn -o q4.onnx --bits 4 --budget 0.1",
    ),
)
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The ONNX file to write.")
@quantization_options
@click.option(
    "--samples",
    type=click.Path(path_type=Path),
    metavar="FILE.npz",
    help="Real inputs to judge on; without them, drawn ones.",
)
@json_option
@runtime_option
@threads_option
@limit_options
@common
@click.pass_obj
def command(
    state: State,
    /,
    model: Path,
    output: Path,
    bits: int | None,
    block: int | None,
    accuracy_level: int | None,
    all_products: bool,
    budget: float | None,
    samples: Path | None,
    json_path: str | None,
    runtimes: tuple[str, ...],
    threads: int | None,
    max_cpu: float | None,
    max_memory: float | None,
) -> int:
    """Store the weights of feed-forwards in 8 or 4 bits.

    MODEL is an ONNX file or a bundle. The outputs are judged against its own, under the budget.
    """
    import ffn_export as fx
    from ffn_export.cli.model_file import check_output
    from ffn_export.cli.progress import progress
    from ffn_export.core import onnx_file
    from ffn_export.reports.console import stderr_console
    from ffn_export.reports.json_report import write_json
    from ffn_export.reports.tables import parity_table, quantization_table

    hold(state, [model, *([] if samples is None else [samples])], max_cpu, max_memory)
    options = quantization_of(BITS[0] if bits is None else bits, block, accuracy_level, all_products)
    check_output(output)
    arrays = read_npz(samples)
    console = stderr_console(quiet=state.quiet)
    with progress(console, quiet=state.quiet) as report:
        found = fx.quantize(
            model,
            options,
            budget=DEFAULT_BUDGET if budget is None else budget,
            samples=arrays,
            runtimes=runtimes or None,
            threads=threads,
            progress=report,
        )
    console.print(quantization_table(found.report))
    console.print(parity_table(found.parity))
    if found.passed:
        onnx_file.save(found.model, output)
    if json_path is not None:
        write_json({"quantization": found.report.to_dict(), "parity": found.parity.to_dict()}, json_path)
    if not found.passed:
        say(f"ffn-export: {output} is not written: {found.parity.failures[0]}")
        return 1
    # The file does not contain the session options of the bundle.
    console.print(f"session options: {found.settings.words()}", soft_wrap=True)
    return 0
