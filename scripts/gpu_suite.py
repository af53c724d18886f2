"""Prove on a GPU that every preset, in each form and precision, runs on CUDA alone and computes what PyTorch does.

Each preset is exported and fused, its graph judged by the runtime ort-cuda against float64, and then timed beside
PyTorch on the same GPU. Processes of their own do the work: what ends one of them costs its own results alone.
Exit status: 0 every graph that CUDA takes passed, and it takes all that were fused for it; 1 one did not; 2 bad usage;
3 ort-cuda is not available here.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from command_line import count, say, seconds
from ffn_export.errors import FfnExportError, RuntimeUnavailableError
from ffn_export.fusion.targets import TARGETS
from ffn_export.modules.presets import PRESETS
from ffn_export.reports.json_report import write_json
from ffn_export.reports.text_file import write_text
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.registry import get_runtime
from ffn_export.runtimes.threads import available_threads
from gpu.page import machine, markdown
from gpu.proof import RUNTIME, STATUSES, Group
from gpu.proving import prove_all
from gpu.timing import time_all

DTYPES = ("float32", "float16", "bfloat16")
JUDGING = 0.6  # the largest part of the time that may go by before the timing starts


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    started = time.monotonic()
    reason = get_runtime(RUNTIME).unavailable(Artifact(Path("any.onnx")))
    if reason is not None:
        print(f"gpu_suite: runtime {RUNTIME!r} is not available here: {reason}", file=sys.stderr)
        return RuntimeUnavailableError.exit_status
    threads = max(1, available_threads() // options.jobs)
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        groups = [
            Group(preset, dtype, tuple(options.target), Path(scratch), threads)
            for preset, dtype in itertools.product(options.only, options.dtype)
        ]
        deadline = started + options.seconds
        proofs = prove_all(groups, options.jobs, deadline if options.no_bench else started + JUDGING * options.seconds)
        say(f"{len(proofs)} graphs judged after {time.monotonic() - started:.0f} s")
        times = [] if options.no_bench else time_all(groups, proofs, Path(scratch) / "times.jsonl", deadline)
    where = machine(threads)
    try:
        if options.json is not None:
            data = {"environment": where, "proofs": [asdict(proof) for proof in proofs], "times": times}
            write_json({"schema": "ffn-export-gpu-suite/1", **data}, options.json)
        write_text(markdown(where, proofs, times), options.markdown)
    except FfnExportError as error:
        print(f"gpu_suite: {error}", file=sys.stderr)
        return error.exit_status
    failed = [proof for proof in proofs if proof.is_failure]
    counts = ", ".join(f"{sum(p.status == s for p in proofs)} {s}" for s in STATUSES)
    say(f"{counts} in {time.monotonic() - started:.0f} s")
    return 1 if failed or not proofs else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python scripts/gpu_suite.py --json gpu.json --markdown docs/results-gpu.md",
    )
    for option, known, default, what in (
        ("--only", PRESETS, list(PRESETS), "presets"),
        ("--target", TARGETS, [RUNTIME, "portable", "ort"], "what graphs are fused for"),
        ("--dtype", DTYPES, list(DTYPES), "precisions"),
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
    parser.add_argument("--json", metavar="FILE", help="every result")
    parser.add_argument("--markdown", metavar="FILE", default="-", help="where the page goes [standard output]")
    return parser


if __name__ == "__main__":
    sys.exit(main())
