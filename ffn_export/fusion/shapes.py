"""Check proven shapes against the shapes that fused kernels take."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from ffn_export.fusion.inference import PartnerDim
from ffn_export.fusion.views import int_of, rank


def is_row_of(row: ir.Value | None, x: ir.Value | None) -> bool:
    """Whether ``row`` has rank 1 and exactly the length of the last axis of ``x``.

    Length 1 broadcasts in an ``Add``, but not in a kernel; a longer row would widen the result.
    """
    if row is None or x is None or row.shape is None or x.shape is None or not len(x.shape):
        return False
    last = x.shape[-1]
    return len(row.shape) == 1 and isinstance(last, int) and row.shape[0] == last


def are_alike(a: ir.Value | None, b: ir.Value | None) -> bool:
    """Whether the two operands of an element-wise operator have one shape, so that nothing is broadcast."""
    if a is None or b is None or a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return False
    return are_same_operand_axes(a.shape, b.shape)


def are_same_axes(a: Iterable[int | ir.SymbolicDim], b: Iterable[int | ir.SymbolicDim]) -> bool:
    """Whether two shapes of one rank are the same, symbol by symbol."""
    return all(_same(x, y) for x, y in zip(a, b, strict=True))


def are_same_operand_axes(a: Iterable[int | ir.SymbolicDim], b: Iterable[int | ir.SymbolicDim]) -> bool:
    """Whether the axes of two operands of an element-wise operator are the same for all inputs that it accepts."""
    return all(_same(x, y) or _are_partners(x, y) or _are_partners(y, x) for x, y in zip(a, b, strict=True))


def _same(a: int | ir.SymbolicDim, b: int | ir.SymbolicDim) -> bool:
    if isinstance(a, int) or isinstance(b, int):
        return a == b
    return a.value is not None and a.value == b.value


def _are_partners(a: int | ir.SymbolicDim, b: int | ir.SymbolicDim) -> bool:
    if not isinstance(a, PartnerDim):
        return False
    return a.partner == (str(b) if isinstance(b, int) else b.value) or (
        isinstance(b, PartnerDim) and a.partner == b.partner
    )


def last_size(x: ir.Value | None) -> int | None:
    """Return the size of the last axis, or None if it is not known."""
    last = x.shape[-1] if x is not None and x.shape is not None and len(x.shape) else None
    return last if isinstance(last, int) else None


def is_along_last(node: ir.Node, x: ir.Value | None, default: int) -> bool:
    """Whether the attribute ``axis``, which has this default, names the last axis of a value."""
    return int_of(node, "axis", default) in (-1, (rank(x) or 0) - 1)
