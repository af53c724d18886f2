"""Prove on a GPU that every preset, in each form and precision, runs on CUDA alone and computes what PyTorch does.

Each preset is exported and fused, its graph judged by the runtime ort-cuda against float64, and then timed beside
PyTorch on the same GPU. Whole models are timed beside ONNX Runtime's default session on the export, too. Processes of
their own do the work: what ends one of them costs its own results alone.
Exit status: 0 every graph that CUDA takes passed, and it takes all that were fused for it; 1 one did not, or the time
was up before it; 2 bad usage; 3 ort-cuda is not available here.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from command_line import count, say, seconds
from ffn_export.core.one_line import first_line
from ffn_export.errors import FfnExportError, RuntimeUnavailableError, UsageError
from ffn_export.fusion.targets import TARGETS
from ffn_export.modules.presets import PRESETS
from ffn_export.reports.json_report import write_json
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.registry import get_runtime
from ffn_export.runtimes.threads import available_threads
from gpu import page
from gpu.proof import RUNTIME, STATUSES, Group
from gpu.proving import prove_all
from gpu.timing import time_all
from gpu.whole_models import MODELS, prepare_models, time_models

SCHEMA = "ffn-export-gpu-suite/2"
_DOCS = Path(__file__).parents[1] / "docs"
DTYPES = ("float32", "float16", "bfloat16")
JUDGING = 0.6  # the largest part of the time that may go by before the timing starts


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _only_pages(options.json, options.markdown) if options.only_pages else _judge(options)
    except FfnExportError as error:
        print(f"gpu_suite: {error}", file=sys.stderr)
        return error.exit_status


def _only_pages(json_file: Path, markdown: Path) -> int:
    try:
        data = json.loads(json_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {json_file}: {first_line(error)}") from error
    if data.get("schema") != SCHEMA:
        raise UsageError(f"{json_file} holds no results of this script ({SCHEMA})")
    page.write(page.read(data), markdown)
    return 0


def _judge(options: argparse.Namespace) -> int:
    started = time.monotonic()
    reason = get_runtime(RUNTIME).unavailable(Artifact(Path("any.onnx")))
    if reason is not None:
        print(f"gpu_suite: runtime {RUNTIME!r} is not available here: {reason}", file=sys.stderr)
        return RuntimeUnavailableError.exit_status
    models = () if options.no_bench else options.models
    threads = max(1, available_threads() // (options.jobs + len(models)))
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        groups = [
            Group(preset, dtype, tuple(options.target), Path(scratch), threads)
            for preset, dtype in itertools.product(options.only, options.dtype)
        ]
        deadline = started + options.seconds
        judged = deadline if options.no_bench else started + JUDGING * options.seconds
        with ThreadPoolExecutor(1) as beside:
            prepared = beside.submit(prepare_models, models, Path(scratch), threads, judged)
            proofs = prove_all(groups, options.jobs, judged)
        say(f"{len(proofs)} graphs judged after {time.monotonic() - started:.0f} s")
        of_models = time_models(prepared.result(), Path(scratch), deadline)
        times = [] if options.no_bench else time_all(groups, proofs, Path(scratch) / "times.jsonl", deadline)
        # Before the graphs are removed, which takes seconds.
        results = page.Results(page.machine(threads), proofs, times, of_models)
        write_json({"schema": SCHEMA, **asdict(results)}, options.json)
        page.write(results, options.markdown)
    failed = [proof for proof in proofs if proof.is_failure]
    counts = ", ".join(f"{sum(p.status == s for p in proofs)} {s}" for s in STATUSES)
    say(f"{counts} in {time.monotonic() - started:.0f} s")
    return 1 if failed or not proofs else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python scripts/gpu_suite.py --json gpu.json --markdown gpu.md",
    )
    for option, known, default, what in (
        ("--only", PRESETS, list(PRESETS), "presets"),
        ("--target", TARGETS, [RUNTIME, "portable"], "what graphs are fused for"),
        ("--dtype", DTYPES, list(DTYPES), "precisions"),
        ("--models", MODELS, list(MODELS), "whole models that are timed"),
    ):
        parser.add_argument(
            option,
            nargs="+",
            choices=list(known),
            default=default,
            metavar="NAME",
            help=f"{what} [{' '.join(default)}]",
        )
    parser.add_argument("--jobs", type=count, default=8, metavar="N", help="processes that judge at once [8]")
    parser.add_argument(
        "--seconds", type=seconds, default=300, metavar="S", help="what is not done then is left out [300]"
    )
    parser.add_argument("--no-bench", action="store_true", help="leave the timing out")
    for option, name, what in (
        ("--json", "results-gpu.json", "every result"),
        ("--markdown", "results-gpu.md", "the page; its appendix goes beside it"),
    ):
        parser.add_argument(option, type=Path, metavar="FILE", default=_DOCS / name, help=f"{what} [docs/{name}]")
    parser.add_argument("--only-pages", action="store_true", help="judge nothing: make the pages from the JSON file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
