"""One range for all rows of an activation, from samples.

It takes one node where a scale for each row takes seven, and the product can add its bias. It is used where it holds
for other inputs than the samples too: rows that a norm writes have one size whatever the model's inputs are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion import sites
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.constants import is_fixed
from ffn_export.fusion.region import through
from ffn_export.fusion.views import inputs_of, is_one_of
from ffn_export.quantization import safe_integers
from ffn_export.quantization.row_scales import FLOORED, QuantizedRows, Range
from ffn_export.quantization.smoothing import Channels

# Operators that a value may pass on its way from a norm.
_FOLLOWING = frozenset({*sites.PRODUCTS, "Add", "Mul", *FLOORED})
# A scale for each row is taken if it makes the error of the products this many times smaller.
_WORTH_ROWS = 2.0
# The lowest number of each row is read if that makes it this many times smaller.
_WORTH_LOWEST = 1.1


@dataclass(frozen=True)
class FixedRange:
    """A range in 256 steps.

    Attributes:
        scale: Difference of two stored numbers.
        zero_point: The stored number of zero.
    """

    scale: np.float32
    zero_point: np.uint8

    def rounded(self, rows: Array) -> Array:
        """Return rows as they are stored, in float32."""
        zero = np.float32(self.zero_point)
        stored: Array = (np.clip(np.rint(rows / self.scale) + zero, 0, 255) - zero) * self.scale
        return stored

    def quantize(self, op: Builder, x: ir.Value) -> QuantizedRows:
        """Write the node that quantises a value."""
        scale, zero_point = op.constant(self.scale), op.constant(self.zero_point)
        return QuantizedRows(op.QuantizeLinear(x, scale, zero_point), scale, zero_point)


def is_normed(value: ir.Value) -> bool:
    """Whether a norm writes a value, so that its rows have one size whatever the model's inputs are."""
    found = through(value)
    node = found.producer()
    return node is not None and is_one_of(node, *sites.NORMS, *sites.SKIP_NORMS) and found is node.outputs[0]


def follows_norm(value: ir.Value) -> bool:
    """Whether a value is normed, or computed from a normed one by activations, biases and products with weights."""
    while not is_normed(value):
        node = through(value).producer()
        moving = [] if node is None else [each for each in inputs_of(node) if not is_fixed(each)]
        if node is None or len(moving) != 1 or node.op_type not in _FOLLOWING:
            return False
        value = moving[0]
    return True


@dataclass(frozen=True)
class Choice:
    """How an input is quantised.

    Attributes:
        fixed: The range of all rows, or None if each row has a scale.
        by_rows: How rows are quantised with a scale each.
        error: Squared error of the products on the rows that were kept, with weights in 8 bits too.
    """

    fixed: FixedRange | None
    by_rows: Range
    error: float


def choose(
    channels: Channels, factors: Array | None, matrices: Sequence[Array], ranges: Sequence[Range], *, may_fix: bool
) -> Choice:
    """Choose one range for an input if a scale for each row is not worth its time.

    Args:
        channels: Statistics of the input.
        factors: Factors that its channels are divided by, and the rows of the matrices multiplied by.
        matrices: The ``[d_in, d_out]`` matrices that are multiplied by the input.
        ranges: How rows can be quantised with a scale each, the fastest last.
        may_fix: Whether one range of all rows may be taken.
    """
    divisors = np.ones(len(channels.lowest), np.float32) if factors is None else factors
    rows = channels.rows / divisors
    weighted = [matrix * divisors[:, None] for matrix in matrices]

    def error(rounded: Array) -> float:
        return sum(float(np.square((rounded - rows) @ matrix).sum()) for matrix in weighted)

    weights = sum(float(np.square(rows @ (_rounded(matrix) - matrix)).sum()) for matrix in weighted)
    by_rows = ranges[0]
    apart = best = error(by_rows.rounded(rows))
    for each in ranges[1:]:
        tried = error(each.rounded(rows))
        if tried <= _WORTH_LOWEST**2 * best:
            by_rows, apart = each, tried
    if may_fix:
        low = min(float((channels.lowest / divisors).min()), 0.0)
        high = max(float((channels.highest / divisors).max()), 0.0)
        scale = np.float32((high - low) / 255)
        if scale > 0:
            found = FixedRange(scale, np.uint8(round(-low / float(scale))))
            fixed = error(found.rounded(rows))
            if fixed <= _WORTH_ROWS**2 * best:
                return Choice(found, by_rows, fixed + weights)
    return Choice(None, by_rows, apart + weights)


def _rounded(matrix: Array) -> Array:
    """Return a matrix in 8 bits with a scale for each column."""
    scales = np.maximum(np.abs(matrix).max(axis=0), np.finfo(np.float32).tiny) / np.float32(safe_integers.LARGEST)
    rounded: Array = np.rint(matrix / scales) * scales
    return rounded
