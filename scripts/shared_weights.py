"""Load a bundle in several processes and print the memory that each takes, from Linux's ``smaps_rollup``.

*Private* is what a process has for itself. *Proportional* (Pss) counts a page that n processes share as 1/n of it in
each. Both are without what a process takes before it loads the bundle. A time is that of the fastest of 21 runs, on one
thread of one process. Exit status: 0 printed; 2 bad usage.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from command_line import count, say

LENGTHS = (1, 16, 128)
_HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.worker:
        return _work(options.bundles[0])
    if not Path("/proc/self/smaps_rollup").is_file():
        say("shared_weights: only Linux tells which pages processes share")
        return 2
    measured = [measure(bundle, options.processes) for bundle in options.bundles]
    if options.json:
        print(json.dumps(measured, indent=2))
        return 0
    print(f"{options.processes} processes; MB of each beyond what Python and its libraries take")
    times = [f"ms, {tokens} tokens" for tokens in LENGTHS]
    print(" ".join(f"{name:>14}" for name in ("private", "proportional", "load, s", *times)), " bundle")
    for each in measured:
        numbers = (each["private"], each["proportional"], each["load"], *each["ms"])
        shown = [f"{number:14.0f}" for number in numbers[:2]] + [f"{number:14.2f}" for number in numbers[2:]]
        print(" ".join(shown), f" {each['bundle']}")
    return 0


def measure(bundle: Path, processes: int, timed: bool = True) -> dict[str, Any]:
    """Return the memory of a process in MB, as the median over the processes, and the fastest of 21 runs in ms."""
    command = [sys.executable, str(_HERE / "shared_weights.py"), "--worker", str(bundle)]
    with ExitStack() as stack:
        workers = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(processes)
        ]
        said = [_answer(worker) for worker in workers]
        before = [_memory(worker.pid) for worker in workers]
        said = [_answer(worker, "load") for worker in workers]
        after = [_memory(worker.pid) for worker in workers]
        times = _answer(workers[0], "time") if timed else {}
        for worker in workers:
            worker.stdin.close()  # type: ignore[union-attr]
    grown = [{key: new[key] - old[key] for key in new} for old, new in zip(before, after, strict=True)]
    return {
        "bundle": str(bundle),
        "load": statistics.median(each["load"] for each in said),
        "private": statistics.median(each["Private_Clean"] + each["Private_Dirty"] for each in grown),
        "proportional": statistics.median(each["Pss"] for each in grown),
        "shared": statistics.median(each["Shared_Clean"] + each["Shared_Dirty"] for each in grown),
        "resident": statistics.median(each["Rss"] for each in grown),
        **times,
    }


def _answer(worker: subprocess.Popen[str], *words: str) -> dict[str, Any]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    for word in words:
        worker.stdin.write(f"{word}\n")
        worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        raise SystemExit(2)  # its error is printed
    answer: dict[str, Any] = json.loads(line)
    return answer


def _memory(pid: int) -> dict[str, float]:
    """Return field -> MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(size.split()[0]) / 1000 for name, _, size in (line.partition(":") for line in lines)}


def _work(bundle: Path) -> int:
    """Be one of the processes: say something before loading, after a first run, and after timed ones."""
    import numpy as np
    import onnxruntime  # noqa: F401

    import ffn_export as fx

    def inputs(tokens: int) -> dict[str, Any]:
        """Return ones, with all tokens in one sequence."""
        found = {}
        for tensor in session.manifest.inputs:
            free = [axis for axis, size in enumerate(tensor["shape"]) if isinstance(size, str)]
            shape = [
                tokens if axis in free[-1:] else 1 if axis in free else n for axis, n in enumerate(tensor["shape"])
            ]
            found[tensor["name"]] = np.ones(shape, tensor["dtype"])
        return found

    def milliseconds(tokens: int) -> float:
        feeds, times = inputs(tokens), []
        for _ in range(21):
            started = time.perf_counter()
            session.run(feeds)
            times.append((time.perf_counter() - started) * 1e3)
        return min(times)

    print("{}", flush=True)
    for line in sys.stdin:
        if line == "load\n":
            started = time.perf_counter()
            session = fx.load(bundle, threads=1)
            took = time.perf_counter() - started
            session.run(inputs(1))
            print(json.dumps({"load": took}), flush=True)
        else:
            print(json.dumps({"ms": list(map(milliseconds, LENGTHS))}), flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE")
    parser.add_argument("--processes", type=count, default=10, metavar="N")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
