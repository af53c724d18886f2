"""Write a report to a file, atomically, or to standard output."""

from __future__ import annotations

import errno
import os
import re
import secrets
from pathlib import Path

from ffn_export.core import replaced
from ffn_export.core.plain_text import safe_lines
from ffn_export.errors import UsageError
from ffn_export.reports.formats import FORMATS
from ffn_export.reports.streams import put

STANDARD_OUTPUT = "-"
# Reports and plots of other commands are JSON and SVG.
_REPORT = re.compile("|".join(re.escape(each.begins) for each in FORMATS).encode())


def write_text(text: str, destination: Path | str, *, commands: bool = False) -> None:
    """Write text as UTF-8, with anything that controls a terminal or a CI runner escaped.

    A file gets its name only when it is complete. Missing directories are created. A destination that is
    not a regular file, such as ``/dev/null`` or a named pipe, is written to and never replaced. A symbolic
    link keeps pointing to the written file.

    Args:
        text: Text to write.
        destination: Path of the file, or ``-`` for standard output.
        commands: Write the text as it is: lines that are commands of a CI runner, in which everything is escaped.

    Raises:
        UsageError: If the path cannot be written to.
    """
    text = text if commands else safe_lines(text)
    if str(destination) == STANDARD_OUTPUT:
        put(text)
        return
    path = Path(destination)
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8", newline="\n")
        else:
            _replace(path.resolve(), text)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error


def check_writable(destination: Path | str) -> None:
    """Check a destination before the work for it starts; no file or directory is created.

    Raises:
        UsageError: If :func:`write_text` could not write there, or would replace a file that is no report.
    """
    if str(destination) == STANDARD_OUTPUT:
        return
    path = Path(destination)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():
            return
        above = next(parent for parent in path.resolve().parents if parent.exists())
        scratch = above / f".ffn-export-{secrets.token_hex(8)}"
        scratch.touch()
        scratch.unlink()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error
    replaced.check(path, _REPORT, "a report")


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not by tempfile, so that the file gets the default permissions of a new file.
    scratch = path.with_name(f".ffn-export-{secrets.token_hex(8)}")
    try:
        scratch.write_text(text, encoding="utf-8", newline="\n")
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
