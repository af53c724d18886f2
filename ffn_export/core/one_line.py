"""Errors of other libraries as one line."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """Return ``Type: first line of the message``."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def root_cause(error: BaseException) -> BaseException:
    """Return the error at the start of a ``raise … from …`` chain."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
