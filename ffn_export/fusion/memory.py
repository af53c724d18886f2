"""Cache readings of a graph until it changes.

Several rules look at one node, and neighbouring nodes read the same values. Within :func:`remembering` each reading is
made once, so the time of a sweep stays linear in the size of the graph. After a change of the graph, call
:func:`forget`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

_READINGS: ContextVar[dict[tuple[Any, ...], Any] | None] = ContextVar("readings", default=None)
_UNREAD = object()


@contextmanager
def remembering() -> Iterator[None]:
    """Cache readings until the end of the block."""
    before = _READINGS.set({})
    try:
        yield
    finally:
        _READINGS.reset(before)


def forget() -> None:
    """Drop all readings, after a change of the graph."""
    readings = _READINGS.get()
    if readings:
        readings.clear()


def remembered(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a function so that its results are cached; its arguments are hashable and passed by position."""

    @wraps(function)
    def read(*arguments: _P.args, **named: _P.kwargs) -> _T:
        readings = _READINGS.get()
        if readings is None or named:
            return function(*arguments, **named)
        key = (function, *arguments)
        found = readings.get(key, _UNREAD)
        if found is _UNREAD:
            found = readings[key] = function(*arguments, **named)
        result: _T = found
        return result

    return read
