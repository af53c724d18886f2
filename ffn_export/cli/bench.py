"""``ffn-export bench``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ffn_export.cli.baseline import baseline_option, report_regressions, same_threads
from ffn_export.cli.help import Command
from ffn_export.cli.limits import TIMING, hold, limit_options
from ffn_export.cli.options import (
    LARGEST_SIZE,
    PATH,
    Whole,
    common,
    max_ratio_option,
    or_none,
    runtime_option,
    source_options,
    threads_option,
)
from ffn_export.cli.report_files import json_option
from ffn_export.cli.state import State
from ffn_export.errors import UsageError
from ffn_export.reports.streams import say

if TYPE_CHECKING:
    from ffn_export.core.source_options import SourceOptions
    from ffn_export.latency.result import LatencyResult


@click.command(
    "bench",
    short_help="Time a model beside PyTorch.",
    cls=Command,
    page="docs/commands.md",
    examples=(
        "bench exported/bert-ffn",
        "bench exported/bert-ffn --tokens 1 --tokens 128 --max-ratio 1.0",
        "bench model.onnx --against bert-ffn --json -",
    ),
)
@click.argument("model", type=PATH)
@click.option(
    "--against",
    metavar="SPEC",
    help="The PyTorch source to time it beside. Without it, a bundle is timed beside its preset.",
)
@click.option(
    "--tokens",
    multiple=True,
    callback=or_none,
    type=Whole(1, LARGEST_SIZE),
    metavar="N",
    help="Length of the one sequence to time; once for each. [default: three typical sizes]",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    callback=or_none,
    metavar="NAME:DTYPE[DIM,...]",
    help="An input of --against, such as x:float32[batch,seq,768]; once for each. [default: the model's]",
)
@json_option
@source_options
@max_ratio_option
@baseline_option
@runtime_option
@threads_option
@limit_options
@common
@click.pass_obj
def command(
    state: State,
    /,
    model: Path,
    against: str | None,
    tokens: tuple[int, ...] | None,
    inputs: tuple[str, ...] | None,
    json_path: str | None,
    max_ratio: float | None,
    baseline: Path | None,
    runtimes: tuple[str, ...] | None,
    threads: int | None,
    source: SourceOptions,
) -> int:
    """Time MODEL on the runtimes of this machine, in turn with its PyTorch source.

    MODEL is an ONNX file or a bundle. Ratios come with a 95 % confidence interval, and --max-ratio fails
    where the whole interval lies above it. --baseline times what the stored timing did, and fails where a ratio's
    interval lies wholly above the earlier one, twice in a row. On a GPU, times with the copies from the host and back
    are shown beside those without, and neither option fails on them.
    """
    import ffn_export as fx
    from ffn_export.latency.baseline import compare_twice
    from ffn_export.latency.gate import latency_failures, not_timed
    from ffn_export.reports.json_report import write_json
    from ffn_export.reports.tables import latency_table

    hold(state, [model], TIMING)
    old = None if baseline is None else _stored_timing(baseline)
    sizes = None if old is None or tokens else [measurement.sizes for measurement in old.measurements] or None
    if max_ratio is not None and against is None and model.suffix == ".onnx":
        raise UsageError("--max-ratio is over PyTorch's time: name the model's PyTorch source with --against SPEC")
    console = state.console

    def time() -> LatencyResult:
        with state.progress() as line:
            return fx.bench(
                model,
                against,
                inputs=inputs,
                sizes=sizes,
                tokens=tokens,
                runtimes=runtimes,
                threads=threads or (same_threads(old) if old else None),
                progress=line,
                **source,
            )

    result = time()
    console.print(latency_table(result, verbose=state.verbose))
    if json_path is not None:
        write_json(result.to_dict(), json_path)
    if max_ratio is not None and not result.baseline:
        why = result.unavailable.get("torch", "its source is not known: name it with --against SPEC")
        raise UsageError(f"--max-ratio is over PyTorch's time, which was not taken: {why}")
    untimed = not_timed(result, runtimes or ())
    if untimed is not None:
        raise UsageError(f"the model was not timed: {untimed}")
    failures = latency_failures(result, max_ratio)
    for failure in failures:
        say(f"ffn-export: {failure}")
    worse = 0 if old is None else report_regressions(compare_twice(old, result, time), baseline, console)
    return 1 if failures or worse else 0


def _stored_timing(path: Path) -> LatencyResult:
    from ffn_export.bundle import stored

    latency = stored.read(path).latency
    if latency is None:
        raise UsageError(f"--baseline {path} holds no timing: write one with ffn-export bench MODEL --json FILE")
    return latency
