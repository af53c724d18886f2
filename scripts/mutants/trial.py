"""Tries mutants: runs the tests of each in a copy of the repository."""

from __future__ import annotations

import queue
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from mutants import warm
from mutants.draw import Mutant
from mutants.traced import Order, Trace, Tracer

ROOT = Path(__file__).parents[2]
_USUAL = re.findall(r"^USUAL := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
# A run may take three times as long as its tests do without a mutant, and a minute to start.
_PATIENCE, _START = 3, 60
_PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def outcomes(
    mutants: Sequence[Mutant], tests: Mapping[str, Sequence[str]], folder: Path, jobs: int, quick: bool = False
) -> Iterator[tuple[Mutant, str, int, float]]:
    """Yield mutants in their order with killed, survived or timed out, how many tests it met, and the seconds.

    Args:
        mutants: The mutants.
        tests: The test files of each file that is changed; of their tests, those that run the line meet the mutant.
        folder: Where copies of the repository are made.
        jobs: How many mutants are tried at the same time.
        quick: Whether slow tests are left out.

    Raises:
        TestsFailedError: If the tests fail without a mutant.
    """
    copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for job in range(jobs):
        copies.put(_copy(folder / str(job) / "repository"))
    original = _copy(folder / "unchanged" / "repository")
    trace = traced(original, list(tests), sorted({each for files in tests.values() for each in files}), quick)

    def tried(mutant: Mutant) -> tuple[Mutant, str, int, float]:
        copy, started = copies.get(), time.monotonic()
        chosen = trace.tests_of(original / mutant.file, mutant.line, tests[mutant.file])
        try:
            seconds = _START + _PATIENCE * sum(each.seconds for each in chosen)
            outcome = _outcome(mutant, copy, [each.id for each in chosen], seconds)
        finally:
            copies.put(copy)
        return mutant, outcome, len(chosen), time.monotonic() - started

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(tried, mutants)


class TestsFailedError(Exception):
    """Tests fail without a mutant; the message is pytest's."""

    __test__ = False  # for pytest


def _outcome(mutant: Mutant, copy: Path, ids: Sequence[str], seconds: float) -> str:
    if not ids:
        return "survived"
    path, code = copy / mutant.file, (copy / mutant.file).read_text()
    files = dict.fromkeys(each.split("::")[0] for each in ids)
    try:
        _write(path, mutant.of(code))
        status = _pytest(copy, "-x", *files, plugin=partial(Order, ids), seconds=seconds)
    except warm.TimedOutError:
        return "timed out"
    finally:
        _write(path, code)
    return "survived" if status in _PASSED else "killed"


def traced(copy: Path, changed: Sequence[str], files: Sequence[str], quick: bool = False) -> Trace:
    """Run tests without a mutant."""
    if files:
        marks = ("-m", f"{_USUAL[0]} and not slow") if quick else ()
        plugin = partial(Tracer, copy.parent, [copy / each for each in changed])
        status = _pytest(copy, *marks, *files, plugin=plugin)
        if status not in _PASSED:
            raise TestsFailedError(_output(copy).read_text())
    return Trace(copy.parent)


def _pytest(copy: Path, *arguments: str, plugin: Callable[[], object], seconds: float | None = None) -> int:
    """Run tests in a copy."""
    base = f"--basetemp={copy.parent / 'temporary'}"
    arguments = ("-q", "-p", "no:cacheprovider", base, "-m", *_USUAL, *arguments)
    return warm.run(copy, arguments, plugin, _output(copy), seconds)


def _output(copy: Path) -> Path:
    return copy.parent / "output.txt"


def _copy(to: Path) -> Path:
    """Copy what git lists or would add."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)
    return to


def _write(path: Path, code: str) -> None:
    """Write a module, and remove what was compiled: a change may keep its size within the same second."""
    path.write_text(code)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()
