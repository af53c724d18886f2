"""Rows: scales and biases with one number for each feature, and any leading axes of size 1.

A kernel takes a row with exactly the shape of the normalised axes. An ``Add`` or ``Mul`` also takes ``[1, 1, d]``, a
single number, or an expression of constants such as ``1 + w``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.views import input_at, is_standard


def is_row(value: ir.Value, x_rank: int | None) -> bool:
    """Whether a value can be a row for an input of this rank: a constant that does not widen it by broadcasting."""
    array = constants.evaluate(value)
    if array is not None:
        return x_rank is None or array.ndim <= x_rank
    # A value that is computed, or that a caller may override, is judged by its shape.
    return value.shape is not None and len(value.shape) == 1 and isinstance(value.shape[0], int)


def covers(value: ir.Value, sizes: Sequence[int]) -> bool:
    """Whether a row has one number for each element of these axes, or one number for all."""
    array = constants.evaluate(value)
    if array is None:
        return value.shape is not None and list(value.shape) == list(sizes)
    return array.size == 1 or _stripped(array.shape, len(sizes)) == tuple(sizes)


def fits(value: ir.Value, x_rank: int | None, sizes: Sequence[int]) -> bool:
    """Whether a value is a row of these axes for an input of this rank."""
    # A value that is computed, or that a caller may override, must have exactly this shape.
    return covers(value, sizes) and (constants.evaluate(value) is None or is_row(value, x_rank))


def unshaped(value: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """Return the row of these axes to which a node added leading axes of size 1; else the value itself."""
    node = value.producer()
    source = input_at(node, 0) if is_standard(node, "Flatten", "Reshape", "Unsqueeze") and node is not None else None
    shapes = [None if each is None or each.shape is None else list(each.shape) for each in (value, source)]
    ends = shapes[0] is not None and shapes[0][-len(sizes) :] == list(sizes) and set(shapes[0][: -len(sizes)]) == {1}
    return source if source is not None and ends and shapes[1] == list(sizes) else value


def of(op: Builder, value: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """Return a row in the shape of these axes: the value itself if it has that shape, else a new constant."""
    is_computed = value.producer() is not None and not constants.is_constant(value)
    is_expression = is_computed and constants.evaluate(value) is not None
    if value.shape is not None and list(value.shape) == list(sizes) and not is_expression:
        return value
    array = constants.evaluate(value)
    assert array is not None, f"{value.name} was taken for a row"
    shaped = np.broadcast_to(array.reshape(-1) if array.size == 1 else array.reshape(tuple(sizes)), tuple(sizes))
    return op.constant(shaped)


def product(
    op: Builder, values: Sequence[ir.Value], factor: float, sizes: Sequence[int], dtype: ir.DataType | None
) -> ir.Value:
    """Return the product of rows and a number as one row; ones without rows."""
    if len(values) == 1 and factor == 1:
        return of(op, values[0], sizes)
    assert dtype is not None
    total = np.full(tuple(sizes), factor, np.float64)
    for value in values:
        array = constants.evaluate(value)
        assert array is not None
        total = total * array.astype(np.float64).reshape(-1 if array.size == 1 else tuple(sizes))
    return op.constant(total.astype(dtype.numpy()))


def is_ones(value: ir.Value | None) -> bool:
    """Whether a row is constant and all ones."""
    array = constants.evaluate(value)
    return array is not None and bool((array == 1).all())


def _stripped(shape: tuple[int, ...], keep: int) -> tuple[int, ...]:
    """Return a shape without leading axes of size 1, but with at least ``keep`` axes."""
    while len(shape) > keep and shape[0] == 1:
        shape = shape[1:]
    return shape
