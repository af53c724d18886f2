"""``ffn-export tune``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ffn_export.cli.built import make
from ffn_export.cli.help import Command
from ffn_export.cli.limits import TUNING, hold, limit_options
from ffn_export.cli.options import (
    LARGEST_SIZE,
    LONGEST,
    PATH,
    Positive,
    Whole,
    common,
    input_option,
    opset_option,
    read_npz,
    samples_option,
    source_options,
    target_option,
    threads_option,
)
from ffn_export.cli.report_files import json_option
from ffn_export.cli.state import State
from ffn_export.errors import UsageError
from ffn_export.reports.streams import say
from ffn_export.tuning.options import DEFAULT_SECONDS, DEFAULT_TOKENS, TuneOptions

if TYPE_CHECKING:
    from ffn_export.bundle.build import Build
    from ffn_export.core.source_options import SourceOptions

# Parameters of the options that only a SPEC has.
_OF_A_SPEC = ("name", "opset", "dtype", "keep_io", "seed", "task", "inputs")


@click.command(
    "tune",
    short_help="Choose form and session options by measuring here.",
    cls=Command,
    page="docs/tune.md",
    examples=(
        "tune bert-ffn",
        "tune exported/bert-ffn --tokens 128 --tokens 4096",
        "tune model.onnx -o tuned.onnx --budget 0.02",
    ),
)
@click.argument("what", metavar="MODEL|BUNDLE|SPEC")
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="PATH",
    help="The ONNX file to write of a MODEL; of a SPEC, where bundles go [default: exported]; of a BUNDLE, the tuned "
    "one [default: in its place].",
)
@click.option("--name", help="Name of the bundle of a SPEC. [default: the preset's, factory's or directory's]")
@click.option(
    "--tokens",
    multiple=True,
    type=Whole(1, LARGEST_SIZE),
    metavar="N",
    default=DEFAULT_TOKENS,
    show_default=True,
    help="Length of the one sequence to tune for; once for each.",
)
@click.option(
    "--seconds",
    type=Positive(LONGEST),
    metavar="S",
    default=DEFAULT_SECONDS,
    show_default=True,
    help="Seconds of timed runs for each of two competitors and length; of the bundle at last, twice as many.",
)
@click.option(
    "--budget",
    type=Positive(),
    metavar="SHARE",
    help="Try 8-bit weights and 8-bit integers too, or bfloat16 and 8-bit integers of native kernels, where an "
    "output's relative L2 error stays within this.",
)
@json_option
@target_option
@opset_option
@threads_option
@input_option
@samples_option
@source_options
@limit_options
@common
@click.pass_obj
def command(
    state: State,
    /,
    what: str,
    output: Path | None,
    name: str | None,
    tokens: tuple[int, ...],
    seconds: float,
    budget: float | None,
    json_path: str | None,
    samples: Path | None,
    threads: int | None,
    target: str,
    opset: int,
    inputs: tuple[str, ...] | None,
    source: SourceOptions,
) -> int:
    """Choose the forms of a model's sites and its session options by timing them here; of ort-native the precision.

    What is faster must lead by 3 % on rounds that had no part in finding it, by 10 % up to 16 tokens. A BUNDLE is
    built again from its source, which needs --trust unless that is a preset; a SPEC is built for the first time. Both
    keep the evidence. Of a MODEL only the graph is written: its session options are printed.
    """
    import ffn_export as fx
    from ffn_export.bundle.manifest import MANIFEST
    from ffn_export.verbs import tune

    path = Path(what)
    is_model, is_bundle = path.suffix == ".onnx", (path / MANIFEST).is_file()
    if is_model or is_bundle:
        hold(state, [path, *([] if samples is None else [samples])], TUNING)
        _refuse("a model" if is_model else "a bundle", _OF_A_SPEC if is_model else (*_OF_A_SPEC, "target"))
    options = TuneOptions(tokens, seconds, budget, read_npz(samples))
    if is_model:
        return _tune_model(state, path, output, json_path, options, target, threads)

    def build(report: Any) -> Build:
        if is_bundle:
            return tune.tune_bundle(
                path, options, destination=output, threads=threads, trust=source["trust"], progress=report
            )
        return fx.build(
            what,
            inputs,
            samples=options.samples,
            directory=output or Path("exported"),
            name=name,
            target=target,
            opset=opset,
            threads=threads,
            bench_budget=options.bench_budget,
            tuning=options,
            progress=report,
            **source,
        )

    def evidence(result: Build) -> Mapping[str, Any] | None:
        return None if result.tuning is None else result.tuning.to_dict()

    return make(state, build, evidence, json_path)


def _refuse(what: str, options: Sequence[str]) -> None:
    """Reject options of a SPEC that do not apply to an existing model or bundle."""
    context = click.get_current_context()
    for name in options:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = {"inputs": "input"}.get(name, name.replace("_", "-"))
            raise UsageError(f"--{option} is for a SPEC, which is exported first: leave it out for {what}")


def _tune_model(
    state: State,
    path: Path,
    output: Path | None,
    json_path: str | None,
    options: TuneOptions,
    target: str,
    threads: int | None,
) -> int:
    import ffn_export as fx
    from ffn_export.cli.model_file import check_output
    from ffn_export.core import onnx_file
    from ffn_export.reports.json_report import write_json
    from ffn_export.reports.tables import fusion_table, parity_table, quantization_table, tuning_table

    if output is not None:
        check_output(output)
    if output is not None and output.is_dir():
        raise UsageError(f"{output} is a directory: name the ONNX file to write")
    console = state.console
    with state.progress() as report:
        tuned = fx.tune(path, target, options, threads=threads, progress=report)
    console.print(tuning_table(tuned.tuning))
    console.print(fusion_table(tuned.fusion, verbose=state.verbose))
    if tuned.quantization is not None:
        console.print(quantization_table(tuned.quantization))
    console.print(parity_table(tuned.parity))
    if tuned.passed and output is not None:
        onnx_file.save(tuned.model, output)
    if json_path is not None:
        write_json(tuned.tuning.to_dict(), json_path)
    if not tuned.passed:
        say(f"ffn-export: the tuned model is not written: {tuned.parity.failures[0]}")
        return 1
    if tuned.tuning.chosen.precision is not None:
        console.print(f"precision: {tuned.tuning.chosen.precision}")
    console.print(f"session options: {tuned.settings.words()}", soft_wrap=True)
    if output is None:
        console.print("no model was written: name a file with -o")
    return 0
