"""Read untrusted files: regular files only, of limited size, with strict JSON.

Opening a named pipe could block forever, and reading ``/dev/zero`` would never end.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

from ffn_export.errors import UsageError

_MOST_JSON_BYTES = 2**28
_INTEGER_BITS = 64


def problem(path: Path) -> str | None:
    """Return why a path is no readable file, as words to put after its name; None if it is one."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        return f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return None if stat.S_ISREG(mode) else "is no regular file"


def not_writable(directory: Path, error: OSError) -> UsageError:
    """Return the error of a directory that cannot be made or written to; it names a file in its place."""
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        found = next((path for path in (directory, *directory.parents) if path.exists()), directory)
        return UsageError(f"cannot write to {directory}: {found} is a file, name a directory")
    return UsageError(f"cannot write to {directory}: {error.strerror or error}")


def open_file(path: Path) -> io.BufferedReader:
    """Open a regular file.

    Raises:
        UsageError: If the file is missing, is no regular file, or cannot be read.
    """
    try:
        # O_NONBLOCK: never wait for a pipe, even if the path has become one since it was checked.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"cannot read {path}: it is no regular file")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, most: int) -> bytes:
    """Read a whole file of at most ``most`` bytes.

    Raises:
        UsageError: As for :func:`open_file`, or if the file is larger.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise UsageError(f"cannot read {path}: it holds {size:,} bytes, more than the {most:,} that it may")
        try:
            return file.read(size)  # not `most`: Python allocates the requested size, even 2 GB for a file of 1 kB
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def read_json(path: Path, most: int = _MOST_JSON_BYTES) -> Any:
    """Read a strict JSON file of at most ``most`` bytes: UTF-8, unique keys, finite numbers, no integer above 64 bits.

    Raises:
        UsageError: If the file cannot be read or is not strict JSON.
    """
    data = read_bytes(path, most)
    try:
        text = data.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=_finite, parse_constant=_refuse
        )
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # raises for a lone surrogate
    except RecursionError as error:
        raise UsageError(f"{path} is no JSON: it is nested too deeply") from error
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}") from error
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is given twice")
    return found


def _integer(text: str) -> int:
    number = int(text)
    if number.bit_length() > _INTEGER_BITS:
        raise ValueError(f"a whole number of {len(text)} digits is too large")
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large for a number")
    return number


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")
