"""Tries mutants: runs the tests of each in a copy of the repository."""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mutants.draw import Mutant

ROOT = Path(__file__).parents[2]
_USUAL = re.findall(r"^USUAL := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
# A run may take three times as long as its tests do without a mutant, and a minute to start.
_PATIENCE, _START = 3, 60
_PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def outcomes(
    mutants: Sequence[Mutant], tests: Mapping[str, Sequence[str]], folder: Path, jobs: int
) -> Iterator[tuple[Mutant, str, float]]:
    """Yield mutants in their order with killed, survived or timed out, and the seconds that it took.

    Args:
        mutants: The mutants.
        tests: The test files of each file that is changed.
        folder: Where copies of the repository are made.
        jobs: How many mutants are tried at the same time.

    Raises:
        subprocess.CalledProcessError: If the tests fail without a mutant.
    """
    copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for job in range(jobs):
        copies.put(_copy(folder / str(job)))
    took = _unchanged(folder / "0", sorted({each for files in tests.values() for each in files}))

    def tried(mutant: Mutant) -> tuple[Mutant, str, float]:
        copy, started = copies.get(), time.monotonic()
        # The tests named for the file come first, then the quick ones.
        named = f"test_{Path(mutant.file).stem}"
        files = sorted(tests[mutant.file], key=lambda each: (not Path(each).stem.startswith(named), took[each]))
        try:
            outcome = _outcome(mutant, copy, files, _START + _PATIENCE * sum(took[each] for each in files))
        finally:
            copies.put(copy)
        return mutant, outcome, time.monotonic() - started

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(tried, mutants)


def _outcome(mutant: Mutant, copy: Path, files: Sequence[str], seconds: float) -> str:
    if not files:
        return "survived"
    path, code = copy / mutant.file, (copy / mutant.file).read_text()
    try:
        _write(path, mutant.of(code))
        status = _pytest(copy, "-x", *files, seconds=seconds).returncode
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        _write(path, code)
    return "survived" if status in _PASSED else "killed"


def _unchanged(copy: Path, files: Sequence[str]) -> dict[str, float]:
    """Return the seconds of each test file without a mutant."""
    took = dict.fromkeys(files, 0.0)
    if files:
        done = _pytest(copy, "--junit-xml=times.xml", "-o", "junit_family=xunit1", *files)
        if done.returncode not in _PASSED:
            done.check_returncode()
        for case in ET.parse(copy / "times.xml").getroot().iter("testcase"):
            took[case.attrib["file"]] += float(case.attrib["time"])
    return took


def _pytest(copy: Path, *arguments: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run tests in a copy; processes that they started end with them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "PYTEST_"))}
    environment["PYTHONPATH"] = str(copy)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", *_USUAL, *arguments]
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, output)


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
