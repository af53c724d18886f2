"""``ffn-export quantize``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from ffn_export.cli.help import Command
from ffn_export.cli.limits import hold, limit_options
from ffn_export.cli.options import PATH, common, runtime_option, threads_option
from ffn_export.cli.quantization_options import quantization_options
from ffn_export.cli.report_files import REPORT_FILE, json_option
from ffn_export.cli.sample_options import GivenSamples, sample_options
from ffn_export.cli.state import State
from ffn_export.quantization.options import BITS, QuantizationOptions
from ffn_export.reports.streams import say


@click.command(
    "quantize",
    cls=Command,
    page="docs/quantise.md",
    examples=(
        "quantize model.onnx -o q8.onnx --bits 8",
        "quantize model.onnx -o q8.onnx --int8 --all --samples inputs.npz --budget 0.05",
        "quantize exported/bert-ffn -o q4.onnx --bits 4 --budget 0.1",
    ),
)
@click.argument("model", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The ONNX file to write.")
@quantization_options(default_bits=BITS[0])
@sample_options("Real inputs to judge on, to smooth --int8 by and to calibrate --static; without them, drawn ones.")
@click.option(
    "--metric",
    metavar="NAME=LEAST",
    help="Judge the samples by cosine=0.998, top1=0.99 or your function FILE.py:function=0.9 in place of --budget.",
)
@click.option(
    "--plot",
    type=REPORT_FILE,
    metavar="FILE.svg",
    help="Plot error over time saved as products go to 8 bits, those worth most first.",
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
    quantization: QuantizationOptions,
    budget: float | None,
    samples: GivenSamples,
    metric: str | None,
    plot: str | None,
    json_path: str | None,
    runtimes: tuple[str, ...] | None,
    threads: int | None,
) -> int:
    """Store the weights of feed-forwards in 8 or 4 bits, or compute them in 8-bit integers.

    MODEL is an ONNX file or a bundle. The outputs are judged against its own, under the budget.
    """
    import ffn_export as fx
    from ffn_export.cli.cost import Cost
    from ffn_export.cli.model_file import check_output
    from ffn_export.core import onnx_file
    from ffn_export.reports.json_report import write_json
    from ffn_export.reports.sensitivity_plot import sensitivity_plot
    from ffn_export.reports.tables import parity_table, quantization_table
    from ffn_export.reports.text_file import write_text

    quantize = fx.quantize  # imports the packages
    cost = Cost()
    hold(state, [model, *([] if samples.arrays is None else [samples.arrays])])
    check_output(output)
    console = state.console
    with state.progress() as report:
        found = quantize(
            model,
            quantization,
            budget=budget,
            samples=samples.read(),
            metric=metric,
            sensitivity=plot is not None,
            runtimes=runtimes,
            threads=threads,
            progress=report,
        )
    console.print(quantization_table(found.report))
    if found.measured is not None:
        console.print(found.measured.words, soft_wrap=True)
    console.print(parity_table(found.parity))
    if plot is not None:
        write_text(sensitivity_plot(found.report), plot)
    if found.passed:
        onnx_file.save(found.model, output)
    if json_path is not None:
        write_json(
            {
                "quantization": found.report.to_dict(),
                "metric": None if found.measured is None else asdict(found.measured),
                "parity": found.parity.to_dict(),
            },
            json_path,
        )
    if not found.passed:
        say(f"ffn-export: {output} is not written: {found.failure}")
        return 1
    console.print(cost.words(model), soft_wrap=True)
    # The file does not contain the session options of the bundle.
    console.print(f"session options: {found.settings.words()}", soft_wrap=True)
    return 0
