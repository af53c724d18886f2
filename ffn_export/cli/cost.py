"""What a command took, in one line."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from ffn_export.core import freed
from ffn_export.core.size_on_disk import size_on_disk

_EVERY = 0.01  # seconds
_MIB = 2**20


class Cost:
    """Time and memory of a command from here on, beside Python and its packages.

    Memory then goes back to the system as soon as it is free.
    """

    def __init__(self) -> None:
        import onnxruntime  # noqa: F401 - else it is imported when a model runs, and counts for the model

        self._started = time.monotonic()
        freed.at_once()
        self._before, self._private_before = peak_memory(), _private()
        self._private = self._private_before
        if self._private_before is not None:
            threading.Thread(target=self._watch, daemon=True).start()

    def words(self, model: Path) -> str:
        """Return seconds and peak memory beside the size of a model."""
        size = size_on_disk(model)  # first, since it may read pages of the file
        words = f"{time.monotonic() - self._started:.0f} s"
        peak, private, before = peak_memory(), self._private, self._private_before
        if peak is not None and self._before is not None:
            words += f", at most {(peak - self._before) / _MIB:,.0f} MiB of memory"
            if private is not None and before is not None:
                words += f" with pages mapped from files and {(private - before) / _MIB:,.0f} without"
            words += f", beside {self._before / _MIB:,.0f} of Python and its packages"
        return f"{words}; the model has {size / _MIB:,.1f} MiB"

    def _watch(self) -> None:
        while self._private is not None:
            self._private = max(self._private, _private() or 0)
            time.sleep(_EVERY)


def peak_memory() -> int | None:
    """Return the largest memory of this process so far in bytes, mapped files included; None on Windows."""
    if sys.platform == "win32":  # has no such count
        return None
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _private() -> int | None:
    """Return the memory of this process without pages of files, in bytes; None but on Linux, which counts no peak."""
    if sys.platform != "linux":
        return None
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
