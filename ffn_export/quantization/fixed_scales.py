"""Activations in 8 bits with one scale, calibrated on samples: ``QuantizeLinear`` and ``DequantizeLinear``.

Engines fuse these nodes with the product that reads them. Each has limits of its own, which ``engines`` lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion.builder import Builder
from ffn_export.quantization.engines import Engine
from ffn_export.quantization.row_scales import InputTraits
from ffn_export.quantization.smoothing import Channels

# A scale of an index of the weights, and DequantizeLinear with an axis, are of this opset.
LEAST_OPSET = 13
# Name of a value -> factors that its channels are divided by, or None; returns its lowest and highest number.
Calibrate = Callable[[Mapping[str, Array | None]], Mapping[str, tuple[float, float]]]


@dataclass(frozen=True)
class FixedRange:
    """Range of all numbers of an activation. Those beyond it are stored as its ends.

    Attributes:
        lowest: Lowest number.
        highest: Highest number.
        symmetric: Whether zero is stored as 0, in signed numbers.
    """

    lowest: float
    highest: float
    symmetric: bool

    @classmethod
    def of(cls, channels: Channels, engine: Engine) -> FixedRange:
        """Return the range from the lowest number of all channels to the highest."""
        return cls(float(channels.lowest.min()), float(channels.highest.max()), engine.symmetric)

    @property
    def scale(self) -> float:
        """Difference of two stored numbers."""
        low, high = min(self.lowest, 0.0), max(self.highest, 0.0)
        return max(max(high, -low) / 127 if self.symmetric else (high - low) / 255, float(np.finfo(np.float32).tiny))

    @property
    def zero_point(self) -> Array:
        """The stored number of zero."""
        if self.symmetric:
            return np.array(0, np.int8)
        return np.array(np.clip(round(-min(self.lowest, 0.0) / self.scale), 0, 255), np.uint8)

    def rounded(self, rows: Array) -> Array:
        """Return rows as they are stored, in float32."""
        zero = self.zero_point
        ends = np.iinfo(zero.dtype)
        scale = np.float32(self.scale)
        stored: Array = (np.clip(np.rint(rows / scale) + zero, ends.min, ends.max) - zero) * scale
        return stored

    def smoothed(self, channels: Channels, factors: Array) -> FixedRange:
        """Return the range after the channels are divided by factors."""
        low, high = (
            float(extreme) for extreme in ((channels.lowest / factors).min(), (channels.highest / factors).max())
        )
        return FixedRange(low, high, self.symmetric)

    def quantize(self, op: Builder, x: ir.Value, traits: InputTraits | None = None) -> FixedRows:
        """Write the nodes that quantise a value, and those that engines fuse with what reads it."""
        scale, zero_point = op.constant(np.float32(self.scale)), op.constant(self.zero_point)
        return FixedRows(op.DequantizeLinear(op.QuantizeLinear(x, scale, zero_point), scale, zero_point))


@dataclass(frozen=True)
class FixedRows:
    """A value that was in 8 bits.

    Attributes:
        value: The value, in float32 again.
    """

    value: ir.Value

    def product(self, op: Builder, numbers: ir.Value, scales: ir.Value) -> ir.Value:
        """Write the product with 8-bit weights, in float32."""
        return op.MatMul(self.value, op.DequantizeLinear(numbers, scales, axis=1))
