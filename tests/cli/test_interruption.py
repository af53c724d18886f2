"""Ctrl-C ends a command even if a library drops the exception, and never ends the cleaning up."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import os, signal, time
from ffn_export.cli import interruption
interruption._AGAIN = 0.3
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
interruption.end_as_by_ctrl_c()
"""
DROPPED = """
try:
    os.kill(os.getpid(), signal.SIGINT)
except BaseException:
    pass
try:
    time.sleep(20)
except KeyboardInterrupt:
    print("interrupted")
"""
CLEANED = """
try:
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        time.sleep(1)
        print("cleaned")
except KeyboardInterrupt:
    interruption.ignore()
    time.sleep(1)
    print("ended")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no timer that raises a signal")
@pytest.mark.parametrize(("body", "printed"), [(DROPPED, "interrupted"), (CLEANED, "cleaned ended")])
def test_an_interrupt(body: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", START + body], capture_output=True, text=True, timeout=15, check=True)
    assert done.stdout.split() == printed.split()
