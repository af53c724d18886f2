"""Time models beside PyTorch, over lengths of the sequence and numbers of threads.

Each ratio is of runs that were made in turn, in one process. The Markdown table goes to standard output
unless --markdown names a file.
Exit status: 0 all were timed; 1 a bundle is not what its manifest says; 2 bad usage or bad input; 3 a runtime that was
named is not available here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ffn_export import api, subjects
from ffn_export.bundle.folder import bundles_in
from ffn_export.bundle.manifest import MANIFEST, MODEL
from ffn_export.errors import FfnExportError, UsageError
from ffn_export.exporter import onnx_file
from ffn_export.latency.result import LatencyResult
from ffn_export.latency.sizes import token_sizes
from ffn_export.parity.references import graph_inputs
from ffn_export.reports.json_report import write_json
from ffn_export.reports.markdown_table import markdown_table
from ffn_export.reports.text_file import write_text

_NUMBERS = ("threads", "PyTorch (ms)", "this (ms)", "ratio", "95 % interval")


@dataclass(frozen=True)
class Subject:
    """What is timed: a bundle, or a SPEC that is exported and fused for it."""

    name: str
    model: subjects.Model
    against: str | None
    sizes: list[dict[str, int]]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    results: list[tuple[str, int, LatencyResult]] = []
    try:
        for what in options.what:
            for subject in _subjects(what, options.target, options.tokens):
                for threads in options.threads:
                    print(f"timing {subject.name} with {threads} threads", file=sys.stderr, flush=True)
                    timed = api.bench(
                        subject.model, subject.against, sizes=subject.sizes, runtimes=options.runtime, threads=threads
                    )
                    results.append((subject.name, threads, timed))
        if options.json is not None:
            write_json({"results": [_record(*result) for result in results]}, options.json)
        if options.json != "-" or options.markdown != "-":
            write_text(_markdown(results), options.markdown)
    except FfnExportError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return error.exit_status
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python scripts/benchmark.py bert-ffn exported/llama-ffn --json times.json --markdown times.md",
    )
    parser.add_argument("what", nargs="*", default=["exported"], help="bundles, folders of bundles, SPECs [exported]")
    parser.add_argument("--tokens", nargs="+", type=int, default=[1, 16, 128, 512], metavar="N", help="[1 16 128 512]")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N", help="[1 2]")
    parser.add_argument("--target", default="ort-cpu", help="what SPECs are fused for [ort-cpu]")
    parser.add_argument("--runtime", action="append", metavar="NAME", help="a runtime to time; once for each [all]")
    parser.add_argument("--json", metavar="FILE", help="every result; - for standard output, without the table")
    parser.add_argument("--markdown", metavar="FILE", default="-", help="where the table goes [standard output]")
    return parser


def _subjects(what: str, target: str, tokens: Sequence[int]) -> Iterator[Subject]:
    """Give the bundle, the bundles of a folder, or the model of a SPEC.

    Raises:
        UsageError: If it is none of them.
    """
    path = Path(what)
    if path.is_dir():
        bundles = [path] if (path / MANIFEST).is_file() else bundles_in(path)
        if not bundles:
            raise UsageError(f"{path} holds no bundle; name bundles or SPECs")
        for bundle in bundles:
            specs = graph_inputs(onnx_file.load(bundle / MODEL))
            yield Subject(bundle.name, bundle, None, [token_sizes(specs, count) for count in tokens])
        return
    model, _ = api.fuse(api.export(what), target, check=False)
    yield Subject(what, model, what, [token_sizes(graph_inputs(model), count) for count in tokens])


def _record(name: str, threads: int, result: LatencyResult) -> dict[str, Any]:
    return {"name": name, "threads": threads, **result.to_dict()}


def _markdown(results: Sequence[tuple[str, int, LatencyResult]]) -> str:
    rows = []
    for name, threads, result in results:
        for measurement in result.measurements:
            median = {timing.label: f"{timing.median * 1e3:.3f}" for timing in measurement.timings}
            for ratio in measurement.ratios:
                times = median[ratio.baseline], median[ratio.label]
                interval = f"{ratio.low:.3f} to {ratio.high:.3f}"
                rows.append(
                    (name, measurement.label, str(threads), ratio.label, *times, f"{ratio.value:.3f}", interval)
                )
    headers = ("model", "sizes", "threads", "runtime", "PyTorch (ms)", "this (ms)", "ratio", "95 % interval")
    return markdown_table(headers, rows, numbers=_NUMBERS)


if __name__ == "__main__":
    sys.exit(main())
