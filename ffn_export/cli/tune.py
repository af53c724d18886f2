"""``ffn-export tune``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ffn_export.cli.built import make
from ffn_export.cli.options import (
    common,
    opset_option,
    precision_options,
    read_npz,
    spec_options,
    target_option,
    threads_option,
)
from ffn_export.cli.state import State
from ffn_export.errors import UsageError

if TYPE_CHECKING:
    from ffn_export.tuning.tune import TuneOptions


@click.command("tune", short_help="Choose form and session options by measuring here.")
@click.argument("what", metavar="MODEL|BUNDLE|SPEC")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="PATH",
    help="The ONNX file to write of a MODEL; of a SPEC, where bundles go [default: exported]; of a BUNDLE, the tuned "
    "one [default: in its place].",
)  # fmt: skip
@click.option("--name", help="Name of the bundle of a SPEC. [default: the preset's, factory's or directory's]")
@click.option(
    "--tokens", multiple=True, type=click.IntRange(1), metavar="N",
    help="Length of the one sequence to tune for; once for each.  [default: 1, 16, 128 and 512]",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), metavar="S",
    help="Seconds of timed runs for each of two competitors and length.  [default: 0.3]",
)  # fmt: skip
@click.option(
    "--budget", type=click.FloatRange(0, min_open=True), metavar="SHARE",
    help="Try 8-bit weights too, where an output's relative L2 error stays within this.",
)  # fmt: skip
@click.option("--json", "json_path", metavar="FILE", help="Write the evidence as JSON; - for standard output.")
@target_option
@opset_option
@precision_options
@threads_option
@spec_options
@common
@click.pass_obj
def command(
    state: State,
    /,
    what: str,
    output: Path | None,
    name: str | None,
    tokens: tuple[int, ...],
    seconds: float | None,
    budget: float | None,
    json_path: str | None,
    samples: Path | None,
    threads: int | None,
    **spec: Any,
) -> int:
    """Choose the form of each site and the session options by timing them here.

    What is faster must lead by 3 % on rounds that had no part in finding it, by 10 % up to 16 tokens. A BUNDLE is
    built again from its source, a SPEC for the first time; both keep the evidence. Of a MODEL only the graph is
    written: its session options are printed.

    Example: ffn-export tune exported/bert-ffn --tokens 128 --tokens 4096
    """
    from ffn_export import api, choosing
    from ffn_export.bundle.manifest import MANIFEST
    from ffn_export.reports.json_report import write_json
    from ffn_export.tuning.tune import DEFAULT_SECONDS, DEFAULT_TOKENS, TuneOptions

    options = TuneOptions(tokens or DEFAULT_TOKENS, seconds or DEFAULT_SECONDS, budget, read_npz(samples))
    path = Path(what)
    if path.suffix == ".onnx":
        return _tune_model(state, path, output, json_path, options, spec["target"], threads)

    def build(report: Any) -> Any:
        if (path / MANIFEST).is_file():
            result = choosing.tune_bundle(path, options, destination=output, threads=threads, progress=report)
        else:
            result = api.build(
                what,
                spec["inputs"] or None,
                samples=options.samples,
                directory=output or Path("exported"),
                name=name,
                target=spec["target"],
                opset=spec["opset"],
                dtype=spec["dtype"],
                keep_io=spec["keep_io"],
                seed=spec["seed"],
                task=spec["task"],
                threads=threads,
                budget=budget,
                tuning=options,
                progress=report,
            )
        if json_path is not None and result.tuning is not None:
            write_json(result.tuning.to_dict(), json_path)
        return result

    return make(state, build)


def _tune_model(
    state: State,
    path: Path,
    output: Path | None,
    json_path: str | None,
    options: TuneOptions,
    target: str,
    threads: int | None,
) -> int:
    from ffn_export import api
    from ffn_export.cli.progress import progress
    from ffn_export.exporter import onnx_file
    from ffn_export.reports.console import stderr_console
    from ffn_export.reports.json_report import write_json
    from ffn_export.reports.tables import fusion_table, parity_table, tuning_table

    if output is not None:
        onnx_file.check_writable(output)
    if output is not None and output.is_dir():
        raise UsageError(f"{output} is a directory: name the ONNX file to write")
    console = stderr_console(quiet=state.quiet)
    with progress(console, quiet=state.quiet) as report:
        tuned = api.tune(path, target, options, threads=threads, progress=report)
    for table in (tuning_table(tuned.tuning), fusion_table(tuned.fusion), parity_table(tuned.parity)):
        console.print(table)
    if json_path is not None:
        write_json(tuned.tuning.to_dict(), json_path)
    if not tuned.passed:
        click.echo(f"ffn-export: the tuned model is not written: {tuned.parity.failures[0]}", err=True)
        return 1
    level, entries = tuned.settings.graph_optimization_level, tuned.settings.config_entries
    console.print(
        f"session options: graph_optimization_level={level} {' '.join(f'{k}={v}' for k, v in entries.items())}",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
    if output is not None:
        onnx_file.save(tuned.model, output)
    return 0
