"""What ``torch.finfo`` answers a module that is run in float64: the limits of the dtype that it is written for.

A module asks for the limits of its input's dtype, and they become numbers of its function: the -65504 that hides a
key in float16, the epsilon that a norm is held above. In float64 it would be told others, and be another function. In
most rows nobody sees it; in one that sees no key, -65504 leaves the scores visible and float64's limit does not.
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
    """The dtype whose limits this thread's module is told in the place of float64's."""

    dtype: torch.dtype | None = None


_ASKED = _Asked()


class _StandIn(type):
    """The type of what stands in the place of ``torch.finfo``, which is asked of its results' type too."""

    def __call__(cls, dtype: torch.dtype | None = None) -> Any:
        asked = torch.get_default_dtype() if dtype is None else dtype
        return _TRUE(_ASKED.dtype if asked == torch.float64 and _ASKED.dtype is not None else asked)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _TRUE)


class _Finfo(metaclass=_StandIn):
    pass


@contextmanager
def limits_of(dtype: torch.dtype | None) -> Iterator[None]:
    """Let ``torch.finfo`` answer this thread with the limits of a dtype where it is asked for those of float64."""
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
    """Return the floating-point dtype of most of a module's numbers, or None where it has none."""
    sizes: Counter[torch.dtype] = Counter()
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            sizes[tensor.dtype] += tensor.numel()
    return max(sizes, key=sizes.__getitem__, default=None)
