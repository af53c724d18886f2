"""``ffn-export verify``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from ffn_export.cli.baseline import baseline_option, compared, read_baseline, report_regressions
from ffn_export.cli.options import common, precision_options, read_npz, runtime_option, spec_options, threads_option
from ffn_export.cli.state import State


@click.command("verify")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--against", metavar="SPEC|other.onnx", help="What it should compute. A bundle knows its own source.")
@click.option("--json", "json_path", metavar="FILE", help="Write the result as JSON; - for standard output.")
@click.option("--junit", "junit_path", metavar="FILE", help="Write the result as JUnit XML; - for standard output.")
@baseline_option
@runtime_option
@threads_option
@precision_options
@spec_options
@common
@click.pass_obj
def command(
    state: State,
    /,
    model: Path,
    against: str | None,
    json_path: str | None,
    junit_path: str | None,
    baseline: Path | None,
    runtimes: tuple[str, ...],
    threads: int | None,
    dtype: str,
    keep_io: bool,
    inputs: tuple[str, ...],
    samples: Path | None,
    seed: int | None,
    task: str | None,
) -> int:
    """Verify that MODEL computes what its source does.

    MODEL is an ONNX file or a bundle.

    Example: ffn-export verify model.onnx --against bert-ffn --junit parity.xml
    """
    from ffn_export import api
    from ffn_export.cli.progress import progress
    from ffn_export.reports.console import stderr_console
    from ffn_export.reports.json_report import write_json
    from ffn_export.reports.junit import write_junit
    from ffn_export.reports.tables import parity_table

    arrays = read_npz(samples)
    old = read_baseline(baseline)
    console = stderr_console(quiet=state.quiet)
    with progress(console, quiet=state.quiet) as report:
        result = api.verify(
            model,
            against,
            inputs=inputs or None,
            samples=arrays,
            runtimes=runtimes or None,
            threads=threads,
            dtype=dtype,
            keep_io=keep_io,
            seed=seed,
            task=task,
            progress=report,
        )
    console.print(parity_table(result))
    if json_path is not None:
        write_json(result.to_dict(), json_path)
    if junit_path is not None:
        write_junit(result, junit_path)
    if not result.passed:
        click.echo(f"ffn-export: parity failed: {result.failures[0]}", err=True)
    worse = 0
    if old is not None:
        source = None if against is None or against.endswith(".onnx") else against
        time = partial(
            api.bench, model, source, inputs=inputs or None, runtimes=runtimes or None, dtype=dtype, keep_io=keep_io,
            seed=seed, task=task,
        )  # fmt: skip
        worse = report_regressions(compared(old, result, time, threads), baseline, console)
    return 0 if result.passed and not worse else 1
