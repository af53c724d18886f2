"""Activations in 8 bits with a scale for each row, as nodes of the graph.

The scale of a row is a fixed part of its largest magnitude, by which the product of integers is multiplied. One fixed
zero point fits every row, so the result of a token does not depend on the tokens beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.sites import INTEGER_PRODUCT
from ffn_export.quantization.smoothing import Channels

DOMAIN = "com.microsoft"
# QuantizeLinear and Slice with inputs are of this opset.
ROWS_OPSET = 10
# From this opset on, QuantizeLinear takes a scale for each block of an axis.
BLOCK_OPSET = 21
# Scales of rows must not be denormal: a runtime that flushes them to 0 divides the zeros of a row by 0. A scale is at
# least 1/255 of its row's divisor.
_LEAST_SIZE = 256 * float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class InputTraits:
    """What is known of an input that is quantised.

    Attributes:
        opset: Opset of the graph.
        block: Numbers of a row, if ``QuantizeLinear`` is to take a row as a block: from :data:`BLOCK_OPSET` on, and not
            of a value with one axis, for which onnxruntime takes no block.
        are_rows_whole: Whether no row holds NaN beside numbers.
    """

    opset: int
    block: int | None = None
    are_rows_whole: bool = True


@dataclass(frozen=True)
class Range:
    """Range of the rows, in units of their divisors: from ``-1 / steepness`` to 1.

    Attributes:
        steepness: How many times further a row may reach above zero than below it; infinite if it is never negative.
        lowest: The least number that any row can have, which no row is scaled by; None if rows are scaled by theirs.
    """

    steepness: float
    lowest: float | None = None

    @property
    def zero_point(self) -> int:
        """The stored number of zero."""
        return round(255 / (self.steepness + 1)) if np.isfinite(self.steepness) else 0

    @property
    def scale(self) -> float:
        """Difference of two stored numbers, such that 1 and the lower end of the range are stored too."""
        below = 1 / (self.steepness * self.zero_point) if self.zero_point else 0.0
        return max(below, 1 / (255 - self.zero_point))

    @property
    def least_size(self) -> float:
        """Least divisor of a row. Rows of zeros are divided by it, too."""
        return _LEAST_SIZE if self.lowest is None else -self.steepness * self.lowest

    @property
    def reads_lowest(self) -> bool:
        """Whether a row's lowest number counts for its divisor."""
        return bool(np.isfinite(self.steepness)) and self.lowest is None

    def smoothed(self, channels: Channels, factors: Array) -> Range:
        """Return the range after a division of the channels: a row may fall further below zero, if it falls at all."""
        return self if self == RANGES["Relu"] else SYMMETRIC

    def rounded(self, rows: Array) -> Array:
        """Return rows as they are stored, in float32."""
        return self.stored(rows, self.sizes(rows))

    def sizes(self, rows: Array) -> Array:
        """Return the divisor of each row, ``[rows, 1]``."""
        sizes: Array = np.maximum(rows.max(axis=1, keepdims=True), np.float32(self.least_size))
        return np.maximum(sizes, -self.steepness * rows.min(axis=1, keepdims=True)) if self.reads_lowest else sizes

    def stored(self, rows: Array, sizes: Array) -> Array:
        """Return rows as they are stored with these divisors, in float32."""
        numbers = np.clip(np.rint(rows / (sizes * np.float32(self.scale))) + self.zero_point, 0, 255)
        stored: Array = (numbers - self.zero_point) * np.float32(self.scale) * sizes
        return stored

    def quantize(self, op: Builder, x: ir.Value, traits: InputTraits) -> QuantizedRows:
        """Write the nodes that quantise the rows of a value."""
        rows = self.divisors(op, x, traits)
        scale, zero_point = op.constant(np.float32(self.scale)), op.constant(np.uint8(self.zero_point))
        scales = op.Mul(rows, scale)
        if traits.block is None:
            numbers = op.QuantizeLinear(op.Div(x, scales), op.constant(np.float32(1)), zero_point)
        else:
            zero_points = op.ConstantOfShape(op.Shape(scales), value=ir.tensor(np.array([self.zero_point], np.uint8)))
            numbers = op.QuantizeLinear(x, scales, zero_points, axis=-1, block_size=traits.block)
        return QuantizedRows(numbers, scale, zero_point, rows)

    def divisors(self, op: Builder, x: ir.Value, traits: InputTraits) -> ir.Value:
        """Write the nodes that compute the divisor of each row: infinite or NaN if a number of the row is."""
        sizes = [_reduced(op, "ReduceMax", x, traits.opset)]
        if self.reads_lowest:
            sizes.append(op.Mul(_reduced(op, "ReduceMin", x, traits.opset), op.constant(np.float32(-self.steepness))))
        if not traits.are_rows_whole:  # onnxruntime's ReduceMax may pass over NaN beside numbers, but no sum does
            sizes.append(_reduced(op, "ReduceSum", op.Mul(x, op.constant(np.float32(0))), traits.opset))
        rows = op.Max(*sizes, op.constant(np.float32(self.least_size)))
        # onnxruntime keeps the whole last axis when it reduces an empty tensor; the first number is all otherwise.
        first, end, last = (op.integers(number) for number in (0, 1, -1))
        return op.Slice(rows, first, end, last)


SYMMETRIC = Range(1.0)
# Activations that fall below zero by little. A row that falls further is scaled by that.
RANGES: Mapping[str, Range] = {
    **dict.fromkeys(("Gelu", "FastGelu", "BiasGelu", "QuickGelu", "Swish", "HardSwish"), Range(4.0)),
    **dict.fromkeys(("Relu", "Sigmoid", "Softmax"), Range(float("inf"))),
}
ACTIVATIONS = RANGES.keys() - {"Softmax"}
# The same with the least number that they give, for rows that are not all small.
FLOORED: Mapping[str, Range] = dict.fromkeys(("Gelu", "FastGelu", "BiasGelu"), Range(4.0, -0.17))


@dataclass(frozen=True)
class QuantizedRows:
    """Rows in 8 bits.

    Attributes:
        numbers: ``uint8`` value of the input's shape.
        scale: Scale of all rows, in units of their divisors.
        zero_point: Stored number of zero.
        rows: Divisor of each row.
    """

    numbers: ir.Value
    scale: ir.Value
    zero_point: ir.Value
    rows: ir.Value

    def product(self, op: Builder, numbers: ir.Value, scales: ir.Value) -> ir.Value:
        """Write the product with 8-bit weights, in float32."""
        inputs = (self.numbers, numbers, self.scale, scales, self.zero_point)
        return op.Mul(op.write(f"{DOMAIN}::{INTEGER_PRODUCT}", *inputs), self.rows)


def _reduced(op: Builder, operator: str, x: ir.Value, opset: int) -> ir.Value:
    """Reduce the last axis, which is an input from opset 18 on, and of sums from 13 on."""
    if opset < (13 if operator == "ReduceSum" else 18):
        return op.write(operator, x, axes=[-1], keepdims=1)
    return op.write(operator, x, op.integers(-1), keepdims=1)
