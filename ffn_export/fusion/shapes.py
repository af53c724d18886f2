"""What shapes a fused kernel takes, asked of what the graph says of its values."""

from __future__ import annotations

import onnx_ir as ir


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
    return all(_same(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def _same(a: int | ir.SymbolicDim, b: int | ir.SymbolicDim) -> bool:
    if isinstance(a, int) or isinstance(b, int):
        return a == b
    return a.value is not None and a.value == b.value
