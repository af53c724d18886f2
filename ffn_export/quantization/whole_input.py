"""Activations in 8 bits with one scale for all rows, which is measured when the model runs.

It takes fewer passes over the activations than a scale for each row does, and adds about as little error where all
rows are of one size. The product adds a bias that follows it, which a row's scale would have to come before.

A row that holds NaN or infinity must not reach the others, nor look right itself. Where a caller can give a model such
numbers, the scale is that of the finite rows, and a product behind it makes the row NaN again
(:attr:`~ffn_export.quantization.groups.Group.carrier`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.constants import is_constant
from ffn_export.fusion.sites import INTEGER_PRODUCT
from ffn_export.fusion.views import is_standard
from ffn_export.quantization.fixed_scales import FixedRange
from ffn_export.quantization.row_scales import DOMAIN, InputTraits, Range

# Fitted by `python scripts/row_scale_cost.py` with ONNX Runtime 1.31 on an Intel Xeon with VNNI; an AMD EPYC (Zen 4)
# gives 90 and 5. A row's scale takes a pass over each output, and the bias another one; its divisor takes two passes
# over the input.
_PER_COLUMN, _PER_CHANNEL, _MOST = 126.0, 49.0, 0.6


@dataclass(frozen=True)
class WholeInput:
    """Range of all numbers of an input, from the lowest to the highest of this run."""

    def saves(self, matrices: Sequence[Array]) -> float:
        """Return the time that it saves over scales of rows, as a share of the time of the products, about."""
        d_in, d_out = len(matrices[0]), sum(int(matrix.shape[1]) for matrix in matrices)
        return min(_PER_COLUMN / d_in + _PER_CHANNEL / d_out, _MOST)

    def rounded(self, rows: Array) -> Array:
        """Return rows as they are stored, in float32."""
        low, high = min(float(rows.min()), 0.0), max(float(rows.max()), 0.0)
        scale = np.float32((high - low) / 255 or 1.0)
        zero_point = np.rint(-low / scale)
        stored: Array = (np.clip(np.rint(rows / scale) + zero_point, 0, 255) - zero_point) * scale
        return stored

    def quantize(self, op: Builder, x: ir.Value, traits: InputTraits) -> QuantizedInput:
        """Write the node that quantises a value."""
        return QuantizedInput(*op.several("DynamicQuantizeLinear", 3, x))


WHOLE = WholeInput()


@dataclass(frozen=True)
class FiniteRows:
    """Range of all rows, by the largest divisor that is finite.

    Attributes:
        each: Range of a row.
    """

    each: Range

    def saves(self, matrices: Sequence[Array]) -> float:
        """Return the time that it saves over scales of rows: the passes over the outputs."""
        return min(_PER_COLUMN / len(matrices[0]), _MOST)

    def rounded(self, rows: Array) -> Array:
        """Return rows as they are stored, in float32."""
        return self.each.stored(rows, self.each.sizes(rows).max())

    def quantize(self, op: Builder, x: ir.Value, traits: InputTraits) -> QuantizedInput:
        """Write the nodes that quantise a value. Rows that are not finite get numbers, too."""
        rows = self.each.divisors(op, x, traits)
        none, scale = op.constant(np.float32(self.each.least_size)), op.constant(np.float32(self.each.scale))
        finite = op.Where(op.Less(rows, op.constant(np.float32(np.inf))), rows, none)
        scale = op.Mul(op.ReduceMax(finite, keepdims=0), scale)
        zero_point = op.constant(np.uint8(self.each.zero_point))
        return QuantizedInput(op.QuantizeLinear(x, scale, zero_point), scale, zero_point, rows)


AnyRange = Range | FixedRange | WholeInput | FiniteRows


@dataclass(frozen=True)
class QuantizedInput:
    """An input in 8 bits.

    Attributes:
        numbers: ``uint8`` value of the input's shape.
        scale: Scale of all numbers.
        zero_point: Stored number of zero.
        rows: Divisor of each row, infinite or NaN if a number of the row is; None if nobody is told.
    """

    numbers: ir.Value
    scale: ir.Value
    zero_point: ir.Value
    rows: ir.Value | None = None

    def product(self, op: Builder, numbers: ir.Value, scales: ir.Value, bias: ir.Value | None = None) -> ir.Value:
        """Write the product with 8-bit weights, in float32."""
        inputs = (self.numbers, numbers, self.scale, scales, self.zero_point, *([] if bias is None else [None, bias]))
        return op.write(f"{DOMAIN}::{INTEGER_PRODUCT}", *inputs)


def bias_after(node: ir.Node, scales: ir.Value) -> tuple[ir.Value | None, ir.Node | None]:
    """Return the bias that the only reader of a product adds, and this ``Add``; None and None without one.

    The bias has a number for each of the scales.
    """
    product = node.outputs[0]
    found = product.consumers()
    if product.is_graph_output() or len(found) != 1 or not is_standard(found[0], "Add"):
        return None, None
    if found[0].graph is not node.graph:  # a branch adds it
        return None, None
    bias = found[0].inputs[1 if found[0].inputs[0] is product else 0]
    fits = bias is not None and is_constant(bias) and bias.shape == scales.shape and bias.dtype == scales.dtype
    return (bias, found[0]) if fits else (None, None)
