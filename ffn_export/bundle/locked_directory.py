"""Temporary directories that show whether the process that made them still lives.

Each holds a file that its process keeps locked. The lock ends with the process, however that ends, and is seen from
other containers that share the file system; process numbers are not.
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
except ImportError:  # Windows: a directory that was left behind stays for its user to remove
    fcntl = None  # type: ignore[assignment]

_LOCK = "lock"


@contextmanager
def locked_directory(prefix: str, parent: Path) -> Iterator[Path]:
    """Make a directory, hold its lock, and remove it at the end.

    Raises:
        OSError: If the file system refuses.
    """
    while True:
        directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = _lock(directory)
        if lock is not None or fcntl is None:
            break  # else another process took it for one that was left behind, before it was locked
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if lock is not None:
            os.close(lock)


@contextmanager
def taken_over(directory: Path) -> Iterator[bool]:
    """Take the lock of a directory for the while; False where its process lives, or where that cannot be told."""
    lock = _lock(directory)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _lock(directory: Path) -> int | None:
    """Lock a directory and return the descriptor that holds the lock; None where another process has it."""
    if fcntl is None:
        return None
    path = directory / _LOCK
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(path)):  # noqa: PTH116 - and nobody has removed it meanwhile
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


@contextmanager
def one_at_a_time(directory: Path) -> Iterator[None]:
    """Let one process at a time work in a directory; a killed one holds no lock, and some systems have none."""
    if fcntl is None:
        yield
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
