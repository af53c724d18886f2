"""Calls into libraries, left out of the trace of coverage: each of their lines would cost as much as one of ours."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is not traced, nor what it calls."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(tracer)
            _woken()

    return call


def _woken() -> None:
    """Let the tracer, which is in C, see a call: only then does it follow returns again."""
