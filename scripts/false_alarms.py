"""Verify what is right: every preset, for every target, on runtimes, with many seeds. A failure is a false alarm.

The oracle and PyTorch run once for each preset and seed, and judge all targets and runtimes.
Exit status: 0 no false alarm; 1 there was one; 2 bad usage; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from command_line import count, say
from ffn_export.core import onnx_file
from ffn_export.errors import FfnExportError, RuntimeUnavailableError
from ffn_export.exporter.export import export_source
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.targets import TARGETS
from ffn_export.modules.presets import PRESETS
from ffn_export.parity.cases.case import sweep
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.reference.cached_reference import RememberingReference
from ffn_export.reports.json_report import write_json
from ffn_export.verbs.source_spec import SourceSpec


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    counts: Counter[str] = Counter()
    lines: list[str] = []
    started = time.monotonic()
    try:
        for preset in options.only:
            for dtype in options.dtypes:
                _verify_all(preset, dtype, options, counts, lines)
        if options.json is not None:
            write_json({"cases": dict(counts), "lines": lines, "seeds": options.seeds}, options.json)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except FfnExportError as error:
        print(f"false_alarms: {error}", file=sys.stderr)
        return error.exit_status
    print(*lines, sep="\n")
    took = time.monotonic() - started
    tally = ", ".join(f"{counts[status]} {status}" for status in ("passed", "warned", "failed", "skipped"))
    print(
        f"{tally} cases; {counts['asked']} properties asked, {counts['broken']} broken; {took:.0f} s", file=sys.stderr
    )
    return 1 if any(line.startswith("false alarm") for line in lines) else 0


def _verify_all(preset: str, dtype: str, options: argparse.Namespace, counts: Counter[str], lines: list[str]) -> None:
    reference = RememberingReference(SourceSpec(preset, dtype=dtype).source(), 1)
    assert reference.source is not None
    model = export_source(reference.source)
    with tempfile.TemporaryDirectory() as folder:
        paths = {target: Path(folder) / f"{target}.onnx" for target in options.targets}
        for target, path in paths.items():
            onnx_file.save(fuse(model, target)[0], path)
        for seed in range(options.seeds):
            reference.forget()
            cases = sweep(reference.inputs, reference.example, seed)
            for (target, path), runtime in product(paths.items(), options.runtimes):
                name = f"{preset} {target} {dtype} seed {seed}"
                try:
                    result = run_cases(path, reference, runtimes=[runtime], cases=cases, threads=options.threads)
                except RuntimeUnavailableError as error:
                    lines += [f"unavailable: {name}: {error}"] if seed == 0 else []
                    continue
                counts.update(case.status(result.tolerances) for case in result.cases)
                counts["asked"] += len(result.properties)
                counts["broken"] += sum(": results differ" in failure for failure in result.failures)
                lines += [f"false alarm: {name}: {failure}" for failure in result.failures]
                lines += [f"warned: {name}: {warning}" for warning in result.warnings]
    say(f"{preset} {dtype}: {len(lines)} lines so far")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python scripts/false_alarms.py --only bert-ffn --seeds 3 --runtimes ort-cpu openvino",
    )
    parser.add_argument("--seeds", type=count, default=20, metavar="N", help="seeds 0 to N - 1 [20]")
    parser.add_argument("--only", nargs="+", choices=list(PRESETS), default=list(PRESETS), metavar="PRESET")
    parser.add_argument("--targets", nargs="+", choices=list(TARGETS), default=list(TARGETS), metavar="TARGET")
    parser.add_argument("--dtypes", nargs="+", default=["float32"], metavar="DTYPE", help="precisions [float32]")
    parser.add_argument("--runtimes", nargs="+", default=["ort-cpu"], metavar="RUNTIME", help="runtimes [ort-cpu]")
    parser.add_argument("--threads", type=count, default=1, metavar="N", help="intra-op threads [1]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts and lines")
    return parser


if __name__ == "__main__":
    sys.exit(main())
