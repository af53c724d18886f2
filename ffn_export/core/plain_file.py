"""Reads files that anybody may have made: regular ones alone, no larger than they can be, and JSON strictly.

A named pipe would be waited for without end, and ``/dev/zero`` read without end.
"""

from __future__ import annotations

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
    """Return why a path is no file that can be read, in words that follow its name; None where it is one."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        return f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return None if stat.S_ISREG(mode) else "is no regular file"


def open_file(path: Path) -> io.BufferedReader:
    """Open a regular file.

    Raises:
        UsageError: If it is missing, no regular file, or cannot be read.
    """
    try:
        # A pipe is not waited for, whatever the path has become since somebody looked at it.
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
    """Read a whole file of at most so many bytes.

    Raises:
        UsageError: As :func:`open_file`, or if it is larger.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise UsageError(f"cannot read {path}: it holds {size:,} bytes, more than the {most:,} that it may")
        try:
            return file.read(size)  # Python sets aside what is asked for, were it 2 GB for a file of 1 kB
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def read_json(path: Path, most: int = _MOST_JSON_BYTES) -> Any:
    """Read a JSON file as the standard has it: UTF-8, each key once, finite numbers, whole ones of 64 bits.

    Args:
        path: The file.
        most: How many bytes it may have.

    Raises:
        UsageError: If it cannot be read or is no such JSON.
    """
    data = read_bytes(path, most)
    try:
        text = data.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=_finite, parse_constant=_refuse
        )
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # half of a character is none
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
