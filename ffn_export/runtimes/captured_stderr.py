"""Capture the standard error of C++ libraries as text."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_STDERR = 2
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Captured:
    """Captured text without colours; empty until the block has ended."""

    text: str = ""


@contextmanager
def captured_stderr() -> Iterator[Captured]:
    """Capture file descriptor 2 during the block, for all threads, and keep it off the terminal."""
    captured = Captured()
    sys.stderr.flush()
    original = os.dup(_STDERR)
    try:
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), _STDERR)
            try:
                yield captured
            finally:
                os.dup2(original, _STDERR)
                file.seek(0)
                captured.text = _COLOURS.sub("", file.read().decode(errors="replace"))
    finally:
        os.close(original)
