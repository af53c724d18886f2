"""Trace ``chunk`` and ``tensor_split`` of a symbolic axis as slices.

torch's exporter handles neither: ``chunk`` fails in its optimiser. ``tensor_split`` is decomposed for the remainder of
the traced size, so that other sizes lose their last rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class PiecesAsSlices(TorchFunctionMode):
    """Mode in which both functions give slices if the number of chunks is fixed and the size is symbolic."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Replace the two functions, and run all others."""
        kwargs = kwargs or {}
        write = _WRITES.get(func)
        pieces = None if write is None else write(*args, **kwargs)
        return func(*args, **kwargs) if pieces is None else pieces


def _chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...] | None:
    """Return slices of equal size, except the last; None to run torch's function."""
    size = x.shape[dim]
    if not _is_number(chunks) or isinstance(size, int):
        return None
    of_each = (size + chunks - 1) // chunks
    # A short axis has fewer chunks. Their number becomes a guard of the trace, and sizes that break it are tried later.
    there = int((size + of_each - 1) // of_each)
    return tuple(_slice(x, dim, index * of_each, (index + 1) * of_each) for index in range(there))


def _tensor_split(
    x: Tensor, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None, **others: Any
) -> tuple[Tensor, ...] | None:
    """Return slices of equal size, the first ones longer by 1 for a remainder; None to run torch's function."""
    count = indices_or_sections if sections is None else sections
    size = x.shape[dim]
    if others or not _is_number(count) or isinstance(size, int):
        return None
    starts = [index * (size // count) + torch.sym_min(index, size % count) for index in range(count + 1)]
    return tuple(_slice(x, dim, start, end) for start, end in pairwise(starts))


def _is_number(count: object) -> bool:
    return isinstance(count, int) and count > 0


def _slice(x: Tensor, dim: int, start: Any, end: Any) -> Tensor:
    result: Tensor = torch.ops.aten.slice.Tensor(x, dim, start, end)
    return result


_WRITES: Mapping[Callable[..., Any], Callable[..., tuple[Tensor, ...] | None]] = {
    torch.chunk: _chunk,
    Tensor.chunk: _chunk,
    torch.tensor_split: _tensor_split,
    Tensor.tensor_split: _tensor_split,
}
