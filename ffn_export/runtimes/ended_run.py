"""End runs that exceed a limit of CPU time: a file of a few hundred bytes can hold a loop of 2^62 iterations."""

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
_EVERY = 0.25  # seconds between two checks of the CPU time


class DidNotEndError(Exception):
    """A run was ended because it exceeded its CPU time; the message says so in one line."""


@dataclass
class Allowed:
    """The CPU time that a run may take in this process.

    Attributes:
        seconds: CPU seconds on two processors, before the part for the size of the model.
    """

    seconds: float = 30.0


ALLOWED = Allowed()


def allowed_seconds(size: int) -> float:
    """Return the CPU seconds that one run of a model of ``size`` bytes may take."""
    return ALLOWED.seconds * max(1, (os.cpu_count() or 1) / 2) + _SECONDS_PER_BYTE * size


@contextmanager
def ended_after(seconds: float | None) -> Iterator[onnxruntime.RunOptions]:
    """Give run options that end the run after this CPU time of the process; None sets no limit.

    ONNX Runtime reads them between two nodes. So it ends loops and long graphs, but not a single kernel.

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
