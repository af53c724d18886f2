"""Patch ``torch.finfo`` for a module that runs in float64, to return the limits of its working dtype.

A module may compute with the limits of its input's dtype: the -65504 that masks a key in float16, or a lower bound on a
norm. In float64 it would read other limits and compute another function. Most rows do not show the difference. In a
row without keys, scores remain visible after -65504 and vanish after float64's limit.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_TRUE = torch.finfo
_LOCK = threading.Lock()
_running = [0]


class _Asked(threading.local):
    """The dtype whose limits replace those of float64 in this thread."""

    dtype: torch.dtype | None = None


_ASKED = _Asked()


class _StandIn(type):
    """Metaclass of the replacement of ``torch.finfo``, which also supports ``isinstance`` on its results."""

    def __call__(cls, dtype: torch.dtype | None = None) -> Any:
        asked = torch.get_default_dtype() if dtype is None else dtype
        return _TRUE(_ASKED.dtype if asked == torch.float64 and _ASKED.dtype is not None else asked)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _TRUE)


class _Finfo(metaclass=_StandIn):
    pass


@contextmanager
def limits_of(dtype: torch.dtype | None) -> Iterator[None]:
    """Make ``torch.finfo`` return the limits of a dtype for float64, in this thread."""
    before, _ASKED.dtype = _ASKED.dtype, dtype
    with _LOCK:
        _running[0] += 1
        torch.finfo = _Finfo  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        _ASKED.dtype = before
        with _LOCK:
            _running[0] -= 1
            if not _running[0]:
                torch.finfo = _TRUE  # type: ignore[misc]


def working_dtype(module: torch.nn.Module) -> torch.dtype | None:
    """Return the floating-point dtype of most of a module's parameters and buffers, or None if it has none."""
    sizes: Counter[torch.dtype] = Counter()
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            sizes[tensor.dtype] += tensor.numel()
    return max(sizes, key=sizes.__getitem__, default=None)
