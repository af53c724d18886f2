"""Replace one directory by another, atomically if the operating system can exchange two directories."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # Linux
_RENAME_SWAP = 2  # macOS
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)  # by the kernel or the file system
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


def move_into_place(new: Path, destination: Path, aside: Path) -> None:
    """Move a directory to a destination. The old directory is then at the path of the new one, or at ``aside``.

    If the system can exchange two directories in one step, a killed process leaves either the old or the new one.
    Otherwise the old one is moved to ``aside`` first, and a process killed at that moment leaves no destination.

    Args:
        new: The directory to move.
        destination: Destination of the move; if several processes move a directory here, the last one wins.
        aside: Unused path on the same file system, for the old directory.

    Raises:
        OSError: If the file system refuses; the old directory is then back in place.
    """
    while True:
        try:
            if _exchanged(new, destination):
                return
            moved = destination.exists()
            if moved:
                shutil.rmtree(aside, ignore_errors=True)  # from an earlier iteration: another process has replaced it
                destination.rename(aside)
        except FileNotFoundError:
            moved = False  # another process has moved it away
        try:
            new.rename(destination)
            return
        except BaseException as error:
            if moved:
                with suppress(OSError):  # another process has moved a newer one there
                    aside.rename(destination)
            if not (isinstance(error, OSError) and error.errno in _TAKEN):
                raise


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two directories in one step; return False if the system or the file system cannot.

    Raises:
        OSError: If the exchange fails: ``FileNotFoundError`` if the other directory does not exist.
    """
    exchange = _exchange()
    number = errno.ENOSYS if exchange is None else exchange(os.fsencode(one), os.fsencode(other))
    if number in _UNSUPPORTED:
        return False
    if number:
        raise OSError(number, os.strerror(number), str(other))
    return True


@cache
def _exchange() -> Callable[[bytes, bytes], int] | None:
    """Return a C library call that exchanges two paths and returns the error number; None if there is none."""
    if sys.platform == "win32":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        call, before = getattr(library, "renamex_np", None), False
    else:
        call, before = getattr(library, "renameat2", None), True
    if call is None:
        return None

    def exchange(one: bytes, other: bytes) -> int:
        given = (_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE) if before else (one, other, _RENAME_SWAP)
        return 0 if call(*given) == 0 else ctypes.get_errno()

    return exchange
