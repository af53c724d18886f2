"""Moves a directory into the place of another: at every moment one of both is there, where the system can do that."""

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
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)  # by the kernel, or by this file system
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


def move_into_place(new: Path, destination: Path, aside: Path) -> Path | None:
    """Move a directory to a destination, and return where the one is now that was there before, if any.

    Where two directories can be exchanged in one step, a process that is killed leaves the old one or the new one.
    Elsewhere the old one is moved to ``aside`` first: a process that is killed then leaves the destination empty.

    Args:
        new: The directory to move.
        destination: Where it goes; of several processes that move one here, the last one wins.
        aside: A free name on the same file system, for the directory that was there before.

    Raises:
        OSError: If the file system refuses; the directory that was there before is there again.
    """
    while True:
        try:
            if _exchanged(new, destination):
                return new
            moved = destination.exists()
            if moved:
                shutil.rmtree(aside, ignore_errors=True)  # of an earlier round: another process has replaced it
                destination.rename(aside)
        except FileNotFoundError:
            moved = False  # another process has moved it away
        try:
            new.rename(destination)
            return aside if moved else None
        except BaseException as error:
            if moved:
                with suppress(OSError):  # another process has put its own there: that one is newer
                    aside.rename(destination)
            if not (isinstance(error, OSError) and error.errno in _TAKEN):
                raise


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two directories in one step; False where this system or file system cannot.

    Raises:
        OSError: If it can, and does not: ``FileNotFoundError`` where there is no other.
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
    """Return a call of the C library that exchanges two paths and returns the error number; None where it has none."""
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
