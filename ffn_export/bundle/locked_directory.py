"""Temporary directories that show whether the process that made them is still alive.

Each directory holds a file that its process keeps locked. The lock ends with the process, even a killed one. Other
containers on the same file system see the lock, but not the process id.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: the user has to remove leftover directories
    fcntl = None  # type: ignore[assignment]

_LOCK = "lock"


@contextmanager
def locked_directory(prefix: str, parent: Path) -> Iterator[Path]:
    """Make a directory, hold its lock, and remove it on exit.

    Raises:
        OSError: If the directory cannot be made.
    """
    while True:
        directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = _lock(directory)
        if lock is not None or fcntl is None:
            break  # else another process removed it as a leftover before it was locked
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if lock is not None:
            os.close(lock)


@contextmanager
def taken_over(directory: Path) -> Iterator[bool]:
    """Take the lock of a directory until exit; yield False if its process is alive or this cannot be determined."""
    lock = _lock(directory)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _lock(directory: Path) -> int | None:
    """Lock a directory and return the descriptor that holds the lock; None if the lock cannot be taken."""
    if fcntl is None:
        return None
    path = directory / _LOCK
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(path)):  # noqa: PTH116 - and the file has not been removed in the meantime
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


@contextmanager
def one_at_a_time(directory: Path) -> Iterator[None]:
    """Let one process at a time work in a directory. A killed process releases the lock; Windows has no lock."""
    if fcntl is None:
        yield
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
