"""Measure what ONNX Runtime's kernels cost on this machine's processor, in nanoseconds for an element of their output.

Each kernel runs on float32 rows, 64 and 512 of them, with the optimiser off: norms and residual sums at a width of 768,
what stands between two products at 3072. A number is the mean of the two numbers of rows, each the median of several
passes. A Gemm's or FusedGemm's is what it costs more than a bare MatMul of the same matrices, 256 to 3072; what adds a
bias (Add, BiasGelu, FastGelu:bias) is measured behind such a MatMul, in the same way. MatMul:aliased and MatMul:padded
are whole products, from 3072 and from 3088 to 768: rows that lie a multiple of 4096 bytes apart, and rows that are
longer by a cache line. FeedForward:gelu and the like are whole feed-forwards of 768 and 3072 with 512 and 2048 rows,
and FeedForward:gelu:split is what they cost more with their hidden layer split; below 0, what they cost less. The
table goes to standard error.
Exit status: 0 all were measured; 2 bad usage; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime

from command_line import count, say, seconds
from ffn_export.core.processor import family, instruction_set, processor_name, vendor
from ffn_export.errors import FfnExportError, UsageError
from ffn_export.fusion.costs import TABLES, Table, read_tables, stored
from ffn_export.reports.json_report import write_json
from kernels.feed_forwards import FEED_FORWARDS
from kernels.graphs import KERNELS
from kernels.timing import Cost, measure


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    started = time.monotonic()
    try:
        if options.write and options.threads != 1:
            raise UsageError("the package's tables are of one thread: leave --threads or --write out")
        found, lacking = measure(
            [*KERNELS, *FEED_FORWARDS],
            threads=options.threads,
            passes=options.passes,
            seconds=options.seconds,
            progress=say,
        )
        if not found:
            raise UsageError(f"nothing could be measured: {next(iter(lacking.values()))}")
        table = Table(
            onnxruntime=onnxruntime.__version__,
            instruction_set=instruction_set(),
            vendor=vendor(),
            family=family(),
            processor=processor_name(),
            dtype="float32",
            threads=options.threads,
            command=_command(options),
            ns_per_element={cost.kernel.name: float(f"{cost.ns_per_element:.3g}") for cost in found},
        )
        say(*_lines(found), *(f"{name}: {reason}" for name, reason in lacking.items()))
        if options.json is not None:
            write_json(stored([table]), options.json)
        if options.write:
            others = [each for each in read_tables(options.tables) if each.key != table.key]
            write_json(stored([*others, table]), options.tables)
    except FfnExportError as error:
        print(f"measure_kernels: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("measure_kernels: interrupted; no table is changed", file=sys.stderr)
        return 130
    say(f"{len(found)} kernels of {table.onnxruntime}, {table.instruction_set}, {time.monotonic() - started:.0f} s")
    return 0


def _command(options: argparse.Namespace) -> str:
    """Return what measures the same again."""
    settings = f"--threads {options.threads} --passes {options.passes} --seconds {options.seconds:g}"
    return f"python scripts/measure_kernels.py {settings}"


def _lines(found: Sequence[Cost]) -> list[str]:
    """Return the table: both numbers of rows, their mean, and between what the middle half of the passes lay."""
    width = max(len(cost.kernel.name) for cost in found) + 1  # a long number fills its cell
    lines = [f"{'ns per element':{width}}{'rows: median (middle half of the passes)':>58}{'mean':>9}"]
    for cost in found:
        cells = []
        for tokens, each in cost.by_tokens.items():
            low, high = np.percentile(each, [25, 75])
            cells.append(f"{tokens}: {cost.medians[tokens]:.3f} ({low:.3f} to {high:.3f})".rjust(29))
        lines.append(f"{cost.kernel.name:{width}}{''.join(cells)}{cost.ns_per_element:9.3f}")
    return lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python scripts/measure_kernels.py --write",
    )
    parser.add_argument("--threads", type=count, default=1, metavar="N", help="intra-op threads [1]; 1 for --write")
    parser.add_argument("--passes", type=count, default=10, metavar="N", help="passes over all kernels [10]")
    parser.add_argument("--seconds", type=seconds, default=40, metavar="S", help="of timed runs, all together [40]")
    parser.add_argument("--json", metavar="FILE", help="this machine's table; - for standard output")
    parser.add_argument("--write", action="store_true", help="put it into the package's tables, in its place")
    parser.add_argument("--tables", type=Path, default=TABLES, metavar="FILE", help="other tables for --write")
    return parser


if __name__ == "__main__":
    sys.exit(main())
