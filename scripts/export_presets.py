"""Build a bundle of every preset, for every target, in every precision, and an index of them.

A build that fails is reported, and the others go on. What is built and unchanged is not built again.
Exit status: 0 all were built; 1 one was not; 2 bad usage; 130 interrupted.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from bundle_index import INDEX, IndexEntry, index, index_entry, read_build
from command_line import count
from ffn_export.core.matrix_cell import Cell
from ffn_export.errors import FfnExportError, did_you_mean
from ffn_export.fusion.targets import TARGETS
from ffn_export.model_matrix.entries import Entry
from ffn_export.model_matrix.run import run_matrix
from ffn_export.modules.presets import PRESETS
from ffn_export.reports.json_report import write_json

DTYPES = ("float32", "float16", "bfloat16")
# Seconds: a few dozen runs of each competitor. `scripts/benchmark.py` times with care.
BENCH_BUDGET = 0.005


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    timed = "" if options.no_bench else options.bench
    entries = [
        Entry(preset, targets=(target,), dtypes=(dtype,), bench_budget=_budget(f"{preset}-{target}-{dtype}", timed))
        for preset, dtype, target in itertools.product(options.only, options.dtypes, options.targets)
    ]
    told = _Told(options.output)
    started = time.monotonic()
    try:
        result = run_matrix(entries, options.output, told, jobs=options.jobs)
        listed = {_name(cell): _entry(cell, options.output) for cell in result.cells}
        path = options.output / INDEX
        write_json(index(listed.values(), path), path)
    except KeyboardInterrupt:
        print("interrupted; finished bundles stay, the index is as it was", file=sys.stderr)
        return 130
    except FfnExportError as error:
        print(f"export_presets: {error}", file=sys.stderr)
        return error.exit_status
    failed = sum(entry.error is not None for entry in listed.values())
    took = time.monotonic() - started
    print(f"{len(listed) - failed} built, {failed} failed in {took:.0f} s: {path}", file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python scripts/export_presets.py --only bert-ffn llama-ffn --targets ort-cpu --no-bench",
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("exported"), help="folder of the bundles [exported]")
    for option, known, what in (
        ("--only", PRESETS, "presets"),
        ("--targets", TARGETS, "targets"),
        ("--dtypes", DTYPES, "precisions"),
    ):
        parser.add_argument(
            option, nargs="+", type=_one_of(known), default=list(known), metavar="NAME", help=f"{what} [all]"
        )
    # PyTorch on a CPU takes ten times as long in half precision, and timing all of them longer than the rest.
    parser.add_argument(
        "--bench",
        default="*-ort-cpu-float32",
        metavar="PATTERN",
        help="bundles that are timed, roughly; '*' for all [*-ort-cpu-float32]",
    )
    parser.add_argument("--no-bench", action="store_true", help="leave the timing out")
    parser.add_argument("--jobs", type=count, default=2, metavar="N", help="processes, which share the processors [2]")
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


def _budget(name: str, timed: str) -> float:
    return BENCH_BUDGET if fnmatch(name, timed) else 0.0


class _Told:
    """Tells of each bundle as it comes."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._names = folder, set[str]()

    def __call__(self, cells: Sequence[Cell], planned: int) -> None:
        for cell in cells:
            if _name(cell) not in self._names:
                self._names.add(_name(cell))
                print(
                    f"[{len(self._names)}/{planned}] {_line(_entry(cell, self._folder))}", file=sys.stderr, flush=True
                )


def _name(cell: Cell) -> str:
    return f"{cell.model}-{cell.target}-{cell.dtype}"


def _entry(cell: Cell, folder: Path) -> IndexEntry:
    built = None if cell.path is None else read_build(folder / cell.path)
    return index_entry(_name(cell), cell.model, cell.target, cell.dtype, built, None if built else cell.message)


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
