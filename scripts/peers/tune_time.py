"""How long ``ffn-export tune`` takes, as a user calls it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ffn_export.errors import UsageError

PRESET = "bert-ffn"


def tune_seconds(*options: str) -> float:
    """Return the seconds of the command on a preset, with its default settings unless others are given.

    Raises:
        UsageError: If it fails; the message is its own.
    """
    with tempfile.TemporaryDirectory(prefix="ffn-benchmark-") as scratch:
        command: list[str | Path] = [
            Path(sys.executable).with_name("ffn-export"),
            "tune",
            PRESET,
            "-o",
            scratch,
            "--quiet",
            *options,
        ]
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        took = time.perf_counter() - started
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise UsageError(f"ffn-export tune {PRESET} failed: {said[-1]}")
    return took
