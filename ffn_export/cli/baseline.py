"""``--baseline``: compares a measurement with a stored result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ffn_export.cli.options import PATH
from ffn_export.core.regression import Comparison, together
from ffn_export.reports.streams import say

if TYPE_CHECKING:
    from rich.console import Console

    from ffn_export.bundle.stored import Stored
    from ffn_export.latency.result import LatencyResult
    from ffn_export.parity.judging.result import ParityResult

baseline_option = click.option(
    "--baseline",
    type=PATH,
    metavar="OLD.json|BUNDLE",
    help="Fail on what is worse than a stored result (verify --json, bench --json), or than a bundle's.",
)


def same_threads(old: LatencyResult) -> int | None:
    """Return the number of threads of a baseline; None if this process has fewer processors."""
    from ffn_export.runtimes.threads import available_threads

    threads = old.environment.threads if old.environment else 0
    return threads if 0 < threads <= available_threads() else None


def read_baseline(path: Path | None) -> Stored | None:
    """Read the result named by ``--baseline``, before any long work."""
    if path is None:
        return None
    from ffn_export.bundle import stored

    return stored.read(path)


def compared(
    old: Stored, result: ParityResult, time: Callable[..., LatencyResult] | None, threads: int | None
) -> Comparison:
    """Compare a verification with a baseline. Timings of the baseline are repeated, and twice if they seem slower.

    Args:
        old: The baseline.
        result: The verification.
        time: Function that times the model (``ffn_export.bench``); None if a stored result is judged again.
        threads: Requested number of threads; None means that of the baseline.
    """
    from ffn_export.latency import baseline as latency
    from ffn_export.parity.judging import baseline as parity

    parts = [] if old.parity is None else [parity.compare(old.parity, result)]
    if old.latency is None or not old.latency.measurements:
        return together(parts)
    if time is None:
        return together([*parts, Comparison(0, notes=("latency is not judged: nothing is timed",))])
    sizes = [measurement.sizes for measurement in old.latency.measurements]
    again = partial(time, sizes=sizes, threads=threads or same_threads(old.latency))
    return together([*parts, latency.compare_twice(old.latency, again(), again)])


def report_regressions(comparison: Comparison, path: Path | None, console: Console) -> int:
    """Print regressions and other differences from the baseline; return the exit status."""
    for note in comparison.notes:
        console.print(f"baseline {path}: {note}")
    for failure in comparison.failures:
        say(f"ffn-export: worse than baseline {path}: {failure}")
    if not comparison.passed:
        return 1
    console.print(f"baseline {path}: nothing is worse, {comparison.compared} compared")
    return 0
