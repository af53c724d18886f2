"""Pages of mapped arrays go back to the system; the arrays keep their values."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ffn_export.core import freed


def mapped_kib(path: Path) -> int:
    """Return how much of a file is in the memory of this process."""
    resident = inside = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        inside = line.endswith(str(path)) if "-" in line.split()[0] else inside
        resident += int(line.split()[1]) if inside and line.startswith("Rss:") else 0
    return resident


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_pages_go_back_and_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    np.arange(2**18, dtype=np.float32).tofile(path)
    array = np.memmap(path, np.float32, "r")
    total = float(array.sum(dtype=np.float64))
    assert mapped_kib(path) == 1024
    freed.pages([array, np.ones(3)])
    assert mapped_kib(path) == 0
    assert float(array.sum(dtype=np.float64)) == total


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_pages_of_large_arrays_go_back_during_a_run(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    np.zeros(2**23, np.float32).tofile(path)
    array = np.memmap(path, np.float32, "r")
    with freed.pages_during([array]):
        array.sum()
        deadline = time.monotonic() + 10
        while mapped_kib(path) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert mapped_kib(path) == 0
        array.sum()
    assert mapped_kib(path) == 0


def test_what_was_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    np.zeros(4096, np.float32).tofile(path)
    copied = np.memmap(path, np.float32, "c")
    copied[:] = 1
    freed.pages([copied])
    assert (copied == 1).all()
