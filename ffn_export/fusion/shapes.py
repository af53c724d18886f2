"""What shapes a fused kernel takes, asked of what the graph says of its values."""

from __future__ import annotations

import re
from collections.abc import Iterable

import onnx_ir as ir

_BOUND = re.compile(r"Min\((?P<rows>\d+), (?P<dim>\w+)\)")


def is_row_of(row: ir.Value | None, x: ir.Value | None) -> bool:
    """Whether ``row`` has rank 1 and exactly the length of the last axis of ``x``.

    Length 1 broadcasts in an ``Add`` and not in a kernel; a longer row would widen the result.
    """
    if row is None or x is None or row.shape is None or x.shape is None or not len(x.shape):
        return False
    last = x.shape[-1]
    return len(row.shape) == 1 and isinstance(last, int) and row.shape[0] == last


def are_alike(a: ir.Value | None, b: ir.Value | None) -> bool:
    """Whether two values have one shape, symbol by symbol, so that nothing is broadcast between them."""
    if a is None or b is None or a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return False
    return are_same_axes(a.shape, b.shape)


def are_same_axes(a: Iterable[int | ir.SymbolicDim], b: Iterable[int | ir.SymbolicDim]) -> bool:
    """Whether two lists of as many axes are the same, symbol by symbol."""
    return all(_same(x, y) for x, y in zip(a, b, strict=True))


def _same(a: int | ir.SymbolicDim, b: int | ir.SymbolicDim) -> bool:
    if isinstance(a, int) or isinstance(b, int):
        return a == b
    return a.value is not None and b.value is not None and bounded(a.value) == bounded(b.value)


def bounded(dim: str) -> str:
    """Return ``s`` for ``Min(64, s)``: a slice of a table of 64 rows.

    Beside an axis of size ``s`` it must have that size too, or be 1, which it cannot be: an element-wise
    operator on both refuses every longer ``s`` itself.
    """
    match = _BOUND.fullmatch(dim)
    return match["dim"] if match is not None and int(match["rows"]) > 1 else dim


def last_size(x: ir.Value | None) -> int | None:
    """Return the size of the last axis, or None where it is not known."""
    last = x.shape[-1] if x is not None and x.shape is not None and len(x.shape) else None
    return last if isinstance(last, int) else None
