"""``ffn-export verify``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ffn_export.cli.baseline import baseline_option, compared, read_baseline, report_regressions
from ffn_export.cli.bisection import bisect_and_show, bisection_options, check_bisection_options
from ffn_export.cli.help import Command
from ffn_export.cli.limits import ON_FILES, WITH_A_MODULE, hold, limit_options
from ffn_export.cli.options import (
    MOST_THREADS,
    PATH,
    Whole,
    common,
    fast_option,
    input_option,
    read_npz,
    runtime_option,
    samples_option,
    source_options,
    threads_option,
)
from ffn_export.cli.report_files import report_options, write_reports
from ffn_export.cli.state import State
from ffn_export.cli.verify_options import (
    evidence_options,
    read_inputs,
    replay_lines,
    tolerance_options,
    tolerances_of,
)
from ffn_export.core.words import words
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.parity.judging.tolerances import Tolerances, check_declared
from ffn_export.reports.formats import FORMATS
from ffn_export.reports.streams import say

if TYPE_CHECKING:
    from ffn_export.core.source_options import SourceOptions
    from ffn_export.parity.judging.result import ParityResult

# Options that judge and report, beside those of the command line itself: a stored result follows no others.
_OF_A_STORED_RESULT = words("rejudge baseline atol rtol budget") | {f"{each.name}_path" for each in FORMATS}


@click.command(
    "verify",
    cls=Command,
    page="docs/parity.md",
    examples=(
        "verify model.onnx --against bert-ffn --junit parity.xml",
        "verify exported/bert-ffn --runtime ort-cpu --html report.html",
        "verify --rejudge result.json --atol 1e-4",
    ),
)
@click.argument("model", type=PATH, required=False)
@click.option(
    "--against",
    metavar="SPEC|other.onnx",
    help="What it should compute. Without it, a bundle is held against its preset, else its test vectors.",
)
@baseline_option
@click.option("--rejudge", metavar="FILE", help="Judge a stored --json result, or a bundle's, again; nothing is run.")
@report_options
@tolerance_options
@fast_option
@evidence_options
@bisection_options
@runtime_option
@threads_option
@click.option("--jobs", type=Whole(1, MOST_THREADS), default=1, help="Cases that run at the same time.  [default: 1]")
@input_option
@samples_option
@source_options
@limit_options
@common
@click.pass_obj
def command(
    state: State,
    /,
    model: Path | None,
    against: str | None,
    baseline: Path | None,
    reports: Mapping[str, str],
    rejudge: str | None,
    atol: tuple[str, ...],
    rtol: tuple[str, ...],
    budget: float | None,
    fast: bool,
    input_seed: int | None,
    load_inputs: Path | None,
    save_outputs: Path | None,
    failures: Path | None,
    bisect: bool,
    reduce_to: Path | None,
    runtimes: tuple[str, ...] | None,
    threads: int | None,
    jobs: int,
    inputs: tuple[str, ...] | None,
    samples: Path | None,
    source: SourceOptions,
) -> int:
    """Verify that MODEL computes what its source does.

    MODEL is an ONNX file or a bundle. The source that a bundle names is imported with --trust alone, since that
    runs code.
    """
    import ffn_export as fx
    from ffn_export.reports.tables import parity_table

    onnx_files = [Path(name) for name in (against, rejudge) if name is not None and Path(name).exists()]
    files = [*onnx_files, *(() if model is None else [model])]
    runs_module = source["trust"] or (against is not None and not against.endswith(".onnx"))
    hold(state, files, WITH_A_MODULE if runs_module else ON_FILES)
    old = read_baseline(baseline)
    console = state.console
    tolerances = tolerances_of(atol, rtol, budget)
    check_bisection_options(bisect, reduce_to, rejudge)
    _check_use(model, rejudge, load_inputs, samples, baseline)
    if model is None:
        stored = _stored_parity(Path(str(rejudge)))
        # A bundle keeps the tolerances that it was built under. A result file is judged by the given ones or the
        # defaults.
        if tolerances is not None:
            check_declared(tolerances, list(dict.fromkeys(o.output for case in stored.cases for o in case.outputs)))
        declared = stored.tolerances.declared() if Path(str(rejudge)).is_dir() else Tolerances()
        by_bundle = tolerances is None and bool(declared.declared_words())
        result = stored.rejudged(tolerances or declared, declared_by_bundle=by_bundle)
    else:
        arrays = read_npz(samples) if load_inputs is None else read_inputs(load_inputs)
        kept = None if failures is None else failures / (model.name if model.is_dir() else model.stem)
        with _told_to_junit(model, reports.get("junit")), state.progress() as report:
            result = fx.verify(
                model,
                against,
                inputs=inputs,
                samples=arrays,
                input_seed=input_seed,
                sweep=load_inputs is None,
                fast=fast,
                runtimes=runtimes,
                tolerances=tolerances,
                threads=threads,
                jobs=jobs,
                failures=kept,
                save_outputs=save_outputs,
                progress=report,
                **source,
            )
    console.print(parity_table(result))
    found = None
    if model is not None and (bisect or reduce_to is not None):
        named = {"inputs": inputs, "samples": arrays, "threads": threads, **source}
        found = bisect_and_show(state, model, against, result, reduce_to, **named)
    write_reports(reports, result, model, [shlex.join(["ffn-export", *state.arguments])], found)
    if not result.passed:
        if not state.quiet:
            for line in replay_lines(result, state.arguments):
                say(line)
        say(f"ffn-export: parity failed: {result.failures[0]}")
    worse = 0
    if old is not None:
        time = (
            None
            if model is None
            else partial(
                fx.bench,
                model,
                None if against is None or against.endswith(".onnx") else against,
                inputs=inputs,
                runtimes=runtimes,
                **source,
            )
        )
        worse = report_regressions(compared(old, result, time, threads), baseline, console)
    return 0 if result.passed and not worse else 1


@contextmanager
def _told_to_junit(model: Path, junit_path: str | None) -> Iterator[None]:
    """Write a failed test to the JUnit report if a requested runtime is missing, since CI may ignore a missing file."""
    try:
        yield
    except RuntimeUnavailableError as error:
        if junit_path is not None:
            from ffn_export.reports.junit import junit_xml_of_many
            from ffn_export.reports.text_file import write_text

            write_text(junit_xml_of_many({model.name: str(error)}), junit_path)
        raise


def _check_use(
    model: Path | None, rejudge: str | None, load_inputs: Path | None, samples: Path | None, baseline: Path | None
) -> None:
    if rejudge is not None and model is not None:
        raise UsageError("--rejudge runs nothing and takes no MODEL: leave one of both out")
    if rejudge is not None and (load_inputs is not None or samples is not None):
        raise UsageError("--rejudge runs nothing and takes no inputs: leave one of both out")
    if rejudge is not None:
        _refuse_options_of_a_run()
    if rejudge is None and model is None:
        raise UsageError("name what to verify: an ONNX file or a bundle (or --rejudge a stored result)")
    if load_inputs is not None and samples is not None:
        raise UsageError("--load-inputs and --samples name the arrays to verify on: leave one of both out")
    if load_inputs is not None and baseline is not None:
        raise UsageError("--baseline is held against drawn inputs, --load-inputs draws none: leave one of both out")


def _refuse_options_of_a_run() -> None:
    context = click.get_current_context()
    for option in context.command.params:
        name = str(option.name)
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and option.expose_value and name not in _OF_A_STORED_RESULT:
            raise UsageError(f"--rejudge runs nothing, {option.opts[0]} is about a run: leave one of both out")


def _stored_parity(path: Path) -> ParityResult:
    from ffn_export.bundle import stored

    parity = stored.read(path).parity
    if parity is None:
        raise UsageError(f"--rejudge {path} holds no verification: write one with ffn-export verify MODEL --json FILE")
    return parity
