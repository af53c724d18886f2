"""Give memory back to the system that nothing uses."""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ffn_export.core.types import Array

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_LARGE = 2**18
MUCH = 2**24  # bytes of arrays that are worth the time in which memory is given back
_EVERY = 0.02  # seconds


def at_once() -> None:
    """Let this process give large arrays back as soon as they are freed.

    By default glibc keeps up to 32 MiB of each, in pieces that the next large array may not fit in. What is alive now
    stays alive, and is searched for cycles no longer: that takes a tenth of a second with PyTorch imported.
    """
    gc.freeze()
    for option in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
        _allocator("mallopt", option, _LARGE)


def now(generation: int = 2) -> None:
    """Free what is in cycles, as graphs and their weights are, and give all free memory of this process back.

    Args:
        generation: Oldest generation of objects that is searched for cycles; young ones take little time.
    """
    gc.collect(generation)
    _allocator("malloc_trim", 0)


def pages(arrays: Iterable[Array]) -> None:
    """Give the pages of arrays that are mapped from files back; they are read again where they are used again."""
    for array in arrays if hasattr(mmap, "MADV_DONTNEED") else ():  # not on Windows
        # A mapping that is copied on writing would lose what was written.
        if isinstance(array, np.memmap) and array.mode == "r":
            array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


@contextmanager
def pages_during(arrays: Sequence[Array]) -> Iterator[None]:
    """Give the pages of arrays back after a run that reads them, and meanwhile if they are large.

    A run needs the weights of one layer at a time. Its pages are in the cache of the system, and cheap to map again.
    """
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_EVERY):
            pages(arrays)

    mapped = sum(array.nbytes for array in arrays if isinstance(array, np.memmap))
    is_much = hasattr(mmap, "MADV_DONTNEED") and mapped > MUCH
    watcher = threading.Thread(target=watch, daemon=True) if is_much else None
    if watcher is not None:
        watcher.start()
    try:
        yield
    finally:
        done.set()
        if watcher is not None:
            watcher.join()
        pages(arrays)


def _allocator(name: str, *arguments: int) -> None:
    """Call a function of glibc's allocator; other systems, and other C libraries, have none of this name."""
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    if function is not None:
        function(*arguments)
