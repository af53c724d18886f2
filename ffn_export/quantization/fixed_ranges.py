"""One range for all rows of an activation, from samples.

It takes one node where a scale for each row takes seven, and the product can add its bias. It is used where it holds
for other inputs than the samples too: after a norm, rows have one size whatever the size of the model's inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion import sites
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.views import inputs_of
from ffn_export.quantization.row_scales import QuantizedRows, Range
from ffn_export.quantization.smoothing import Channels

# Operators whose first output has one size whatever the size of their input.
_LEVELLING = frozenset({*sites.NORMS, *sites.SKIP_NORMS, "GroupNormalization", "Softmax", "Sigmoid", "Tanh"})
# A scale for each row is taken if it makes the error of the products this many times smaller.
_WORTH_ROWS = 2.0


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


def levelled(graph: ir.Graph) -> set[ir.Value]:
    """Return the values whose size does not follow the size of the graph's floating-point inputs."""
    found = {value for value in graph.inputs if value.dtype is not None and value.dtype.is_integer()}
    found.update(graph.initializers.values())
    for node in graph:
        if node.op_type in _LEVELLING:
            found.add(node.outputs[0])
        elif not any(attribute.type == ir.AttributeType.GRAPH for attribute in node.attributes.values()):
            if found.issuperset(inputs_of(node)):
                found.update(node.outputs)
    return found


def choose(channels: Channels, factors: Array | None, matrices: Sequence[Array], by_rows: Range) -> FixedRange | None:
    """Return the range of an input, or None if a scale for each row is worth its time.

    Args:
        channels: Statistics of the input.
        factors: Factors that its channels are divided by.
        matrices: The ``[d_in, d_out]`` matrices that are multiplied by the divided input.
        by_rows: How rows would be quantised with a scale each.
    """
    if channels.rows is None:
        return None
    divisors = np.float32(1) if factors is None else factors
    low = min(float((channels.lowest / divisors).min()), 0.0)
    high = max(float((channels.highest / divisors).max()), 0.0)
    scale = np.float32((high - low) / 255)
    if not scale > 0:
        return None
    found = FixedRange(scale, np.uint8(round(-low / float(scale))))
    rows = channels.rows / divisors
    fixed, apart = (
        sum(float(np.square((rounded - rows) @ matrix).sum()) for matrix in matrices)
        for rounded in (found.rounded(rows), by_rows.rounded(rows))
    )
    return found if fixed <= _WORTH_ROWS**2 * apart else None
