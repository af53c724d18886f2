"""Ends runs of a graph that would not end: a file of a few hundred bytes can hold a loop of 2^62 rounds."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime

_SECONDS_PER_BYTE = 1e-6
_EVERY = 0.25  # seconds between two looks at the clock


class DidNotEndError(Exception):
    """A run was ended since it took more than its CPU time; the message says so in one line."""


@dataclass
class Allowed:
    """What every run may take in this process.

    Attributes:
        seconds: CPU time on two processors, besides what the size of a model adds.
    """

    seconds: float = 30.0


ALLOWED = Allowed()


def allowed_seconds(size: int) -> float:
    """Return the CPU time that one run of a model of so many bytes may take."""
    return ALLOWED.seconds * max(1, (os.cpu_count() or 1) / 2) + _SECONDS_PER_BYTE * size


@contextmanager
def ended_after(seconds: float | None) -> Iterator[onnxruntime.RunOptions]:
    """Give options to run with; the run is ended when this process has taken so much CPU time. None ends none.

    ONNX Runtime looks at them between two nodes, so it ends loops and long graphs, and no single kernel.

    Raises:
        DidNotEndError: The run was ended.
    """
    import onnxruntime

    options = onnxruntime.RunOptions()
    if seconds is None:
        yield options
        return
    done = threading.Event()
    start = time.process_time()

    def watch() -> None:
        while not done.wait(_EVERY):
            if time.process_time() - start > seconds:
                options.terminate = True
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield options
    except Exception as error:
        if options.terminate:
            raise DidNotEndError(f"it did not end within {seconds:.0f} s of CPU time") from error
        raise
    finally:
        done.set()
