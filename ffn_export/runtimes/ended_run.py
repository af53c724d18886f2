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


class _Watcher:
    """One thread that looks at all runs that are going on: a thread for each run takes longer than a short run."""

    def __init__(self) -> None:
        self._runs: dict[onnxruntime.RunOptions, float] = {}  # options -> CPU seconds that are left
        self._begun = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, options: onnxruntime.RunOptions, seconds: float) -> None:
        """Look at a run from now on."""
        self._runs[options] = seconds  # the thread reads the CPU time: most runs end before it looks
        self._begun.set()
        with self._starting:
            if self._thread is None or not self._thread.is_alive():  # a forked process has no thread of its parent
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()

    def remove(self, options: onnxruntime.RunOptions) -> None:
        """Look at a run no longer."""
        del self._runs[options]

    def _watch(self) -> None:
        ends: dict[onnxruntime.RunOptions, float] = {}  # options -> CPU time of the process that ends the run
        while self._begun.wait():
            self._begun.clear()  # set again by a run that begins, or that goes on below
            now, runs = time.process_time(), self._runs.copy()
            ends = {options: ends.get(options, now + left) for options, left in runs.items()}
            for options, end in ends.items():
                options.terminate |= now > end
            if runs:
                self._begun.set()
            time.sleep(_EVERY)


_WATCHER = _Watcher()


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
    _WATCHER.add(options, seconds)
    try:
        yield options
    except Exception as error:
        if options.terminate:
            raise DidNotEndError(f"it did not end within {seconds:.0f} s of CPU time") from error
        raise
    finally:
        _WATCHER.remove(options)
