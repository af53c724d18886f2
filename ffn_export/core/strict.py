"""Strict mode: raise exceptions that would otherwise become a refusal or a finding, so that tests see our errors.

A rule that cannot read a node refuses it, and a runtime that fails on an input becomes a line of a report. That is
better for a user than a traceback, but would hide a programming error in a test. With ``FFN_EXPORT_STRICT=1`` in the
environment, the two functions here raise the exception; without it, they do nothing. Every handler of ``Exception``
calls one of them.
"""

from __future__ import annotations

import os
from types import TracebackType

VARIABLE = "FFN_EXPORT_STRICT"
_PACKAGE = __name__.partition(".")[0]
# Exceptions of a programming error. Libraries raise other kinds on purpose, and this package raises those of `errors`.
_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RecursionError,
    TypeError,
)


def expose(error: Exception) -> None:
    """Raise any exception in strict mode: for handlers around code of this package only."""
    if os.environ.get(VARIABLE) == "1":
        raise error


def expose_own(error: Exception) -> None:
    """Raise a programming error of this package in strict mode: for handlers around a user's or a library's code."""
    if isinstance(error, _FAULTS) and _is_raised_here(error.__traceback__):
        expose(error)


def _is_raised_here(traceback: TracebackType | None) -> bool:
    """Whether the line that raised is in this package."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE
