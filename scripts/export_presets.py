"""Build a bundle of every preset, for every target, in every precision, and an index of them.

A build that fails is reported, and the others go on.
Exit status: 0 all were built; 1 one was not; 2 bad usage; 130 interrupted.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from command_line import count
from ffn_export.bundle.build import Build, build_bundle
from ffn_export.bundle.build_options import BuildOptions
from ffn_export.bundle.folder import INDEX, IndexEntry, index, index_entry
from ffn_export.core.one_line import first_line
from ffn_export.errors import FfnExportError, did_you_mean
from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.export import export_source
from ffn_export.fusion.targets import TARGETS
from ffn_export.modules.presets import PRESETS
from ffn_export.parity.reference.cached_reference import RememberingReference
from ffn_export.reports.json_report import write_json
from ffn_export.verbs.source_spec import SourceSpec

DTYPES = ("float32", "float16", "bfloat16")
# Seconds: a few dozen runs of each competitor. `scripts/benchmark.py` times with care.
BENCH_BUDGET = 0.005


@dataclass(frozen=True)
class Task:
    """The bundles that share one export.

    Attributes:
        preset: What is exported.
        dtype: In which precision.
        targets: What it is fused for, one bundle each.
        folder: Where the bundles go.
        timed: Pattern of the names of those that are timed; empty for none.
    """

    preset: str
    dtype: str
    targets: tuple[str, ...]
    folder: Path
    timed: str


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    timed = "" if options.no_bench else options.bench
    tasks = [
        Task(preset, dtype, tuple(options.targets), options.output, timed)
        for preset, dtype in itertools.product(options.only, options.dtypes)
    ]
    started = time.monotonic()
    try:
        entries = _run(tasks, options.jobs)
        path = options.output / INDEX
        write_json(index(entries, path), path)
    except KeyboardInterrupt:
        print("interrupted; finished bundles stay, the index is as it was", file=sys.stderr)
        return 130
    except FfnExportError as error:
        print(f"export_presets: {error}", file=sys.stderr)
        return error.exit_status
    failed = sum(entry.error is not None for entry in entries)
    took = time.monotonic() - started
    print(f"{len(entries) - failed} built, {failed} failed in {took:.0f} s: {path}", file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python scripts/export_presets.py --only bert-ffn llama-ffn --targets ort-cpu --no-bench",
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("exported"), help="folder of the bundles [exported]")
    for option, known, what in (
        ("--only", PRESETS, "presets"), ("--targets", TARGETS, "targets"), ("--dtypes", DTYPES, "precisions"),
    ):  # fmt: skip
        parser.add_argument(
            option, nargs="+", type=_one_of(known), default=list(known), metavar="NAME", help=f"{what} [all]"
        )
    # PyTorch on a CPU takes ten times as long in half precision, and timing all of them longer than the rest.
    parser.add_argument(
        "--bench", default="*-ort-cpu-float32", metavar="PATTERN",
        help="bundles that are timed, roughly; '*' for all [*-ort-cpu-float32]",
    )  # fmt: skip
    parser.add_argument("--no-bench", action="store_true", help="leave the timing out")
    parser.add_argument("--jobs", type=count, default=2, metavar="N", help="processes, each with one thread [2]")
    return parser


def _one_of(known: Iterable[str]) -> Callable[[str], str]:
    """Return a parser of names that suggests the nearest one; argparse's own lists them only."""

    def parse(name: str) -> str:
        if name not in known:
            raise argparse.ArgumentTypeError(
                f"unknown name {name!r};{did_you_mean(name, known)} known are {', '.join(known)}"
            )
        return name

    return parse


def _run(tasks: Sequence[Task], jobs: int) -> list[IndexEntry]:
    """Run the tasks in worker processes, and tell of each bundle as it comes."""
    entries: list[IndexEntry] = []
    total = sum(len(task.targets) for task in tasks)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # NumPy's threads, in the workers
    # Spawned: torch's threads do not survive a fork.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _leave_interrupts) as pool:
        try:
            for done in as_completed([pool.submit(_build_all, task) for task in tasks]):
                for entry in done.result():
                    entries.append(entry)
                    print(f"[{len(entries)}/{total}] {_line(entry)}", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
    return entries


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the parent, which ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _build_all(task: Task) -> list[IndexEntry]:
    """Export once, and build a bundle for each target; whatever goes wrong becomes the bundle's entry."""
    try:
        source = SourceSpec(task.preset, dtype=task.dtype).source()
        exported = export_source(source, DEFAULT_OPSET)
        reference = RememberingReference(source, 1)
    except Exception as error:  # noqa: BLE001 - what keeps one from being exported must not stop the others
        return [_entry(task, target, None, _said(error)) for target in task.targets]
    entries = []
    for target in task.targets:
        name = _name(task, target)
        budget = BENCH_BUDGET if fnmatch(name, task.timed) else 0.0
        try:
            options = BuildOptions(target, threads=1, bench_budget=budget)
            built = build_bundle(source, task.folder / name, options, exported=exported, reference=reference)
            entries.append(_entry(task, target, built, next(iter(built.failures), None)))
        except Exception as error:  # noqa: BLE001 - likewise
            entries.append(_entry(task, target, None, _said(error)))
    return entries


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, FfnExportError) else f"unexpected {first_line(error)}"


def _name(task: Task, target: str) -> str:
    return f"{task.preset}-{target}-{task.dtype}"


def _entry(task: Task, target: str, built: Build | None, error: str | None) -> IndexEntry:
    return index_entry(_name(task, target), task.preset, target, task.dtype, built, error)


def _line(entry: IndexEntry) -> str:
    if entry.error is not None:
        return f"FAILED {entry.name}: {entry.error}"
    errors = ", ".join(f"{runtime} {_worst(found)}" for runtime, found in entry.parity.items())
    return f"built {entry.name}: {errors}; {entry.nodes} nodes"


def _worst(found: Mapping[str, Any]) -> str:
    warned = f", warned by a factor of {found['warned_factor']:.2f}" if found["warned"] else ""
    return f"{found['worst_ulps'] or 0:.2f} ulp{warned}"


if __name__ == "__main__":
    sys.exit(main())
