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
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path

from ffn_export import api
from ffn_export.bundle.build import Build
from ffn_export.bundle.folder import INDEX, IndexEntry, index, index_entry
from ffn_export.errors import FfnExportError, GateError, did_you_mean
from ffn_export.exporter.one_line import first_line
from ffn_export.fusion.targets import TARGETS
from ffn_export.modules.presets import PRESETS
from ffn_export.reports.json_report import write_json

DTYPES = ("float32", "float16", "bfloat16")
# Seconds: a few dozen runs of each competitor. `scripts/benchmark.py` times with care.
BENCH_BUDGET = 0.005

Variant = tuple[str, str, str]  # preset, target, dtype


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    variants = list(itertools.product(options.only, options.targets, options.dtypes))
    timed = () if options.no_bench else options.bench_dtypes
    started = time.monotonic()
    entries: list[IndexEntry] = []
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # NumPy's threads, in the workers
    # Spawned, for torch's threads do not survive a fork. Workers leave Ctrl-C to this process.
    pool = ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn"), _leave_interrupts)
    with pool:
        try:
            for done in as_completed(_submit(pool, variants, options.output, timed)):
                entries.append(done.result())
                print(f"[{len(entries)}/{len(variants)}] {_line(entries[-1])}", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            print("interrupted; finished bundles stay, the index is as it was", file=sys.stderr)
            return 130
    path = options.output / INDEX
    write_json(index(entries, path), path)
    failed = [entry for entry in entries if entry.error is not None]
    print(
        f"{len(entries) - len(failed)} built, {len(failed)} failed in {time.monotonic() - started:.0f} s: {path}",
        file=sys.stderr,
    )
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
    # PyTorch on a CPU takes ten times as long in half precision, and the timing most of the whole run.
    parser.add_argument(
        "--bench-dtypes", nargs="+", choices=DTYPES, default=["float32"], metavar="NAME",
        help="precisions that are timed [float32]",
    )  # fmt: skip
    parser.add_argument("--no-bench", action="store_true", help="leave the timing out")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes, each with one thread [2]")
    return parser


class _one_of:  # noqa: N801 - argparse shows it as a function
    """A name out of those that are known; the nearest one is suggested."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = tuple(known)

    def __call__(self, name: str) -> str:
        if name not in self._known:
            hint = did_you_mean(name, self._known)
            raise argparse.ArgumentTypeError(f"unknown name {name!r};{hint} known are {', '.join(self._known)}")
        return name


def _submit(
    pool: ProcessPoolExecutor, variants: Iterable[Variant], folder: Path, timed: Sequence[str]
) -> list[Future[IndexEntry]]:
    return [pool.submit(_build, variant, folder, BENCH_BUDGET if variant[2] in timed else 0.0) for variant in variants]


def _build(variant: Variant, folder: Path, budget: float) -> IndexEntry:
    """Build one bundle in a worker; whatever goes wrong becomes its entry."""
    preset, target, dtype = variant
    name = f"{preset}-{target}-{dtype}"
    built: Build | None = None
    error: str | None = None
    try:
        built = api.build(
            preset, directory=folder, name=name, target=target, dtype=dtype, threads=1, bench_budget=budget
        )
    except GateError as failed:
        built, error = failed.result if isinstance(failed.result, Build) else None, str(failed)
    except FfnExportError as failed:
        error = str(failed)
    except Exception as failed:  # noqa: BLE001 - a fault of ours must not keep the others from being built
        error = f"unexpected {first_line(failed)}"
    return index_entry(name, preset, target, dtype, built, error)


def _line(entry: IndexEntry) -> str:
    if entry.error is not None:
        return f"FAILED {entry.name}: {entry.error}"
    errors = ", ".join(f"{runtime} {found['worst_ulps'] or 0:.2f} ulp" for runtime, found in entry.parity.items())
    return f"built {entry.name}: {errors}; {entry.nodes} nodes"


def _leave_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
