"""``(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale`` -> ``LayerNormalization``.

Source: Ba, Kiros and Hinton 2016, "Layer Normalization", equation 4.
"""

from __future__ import annotations

from typing import ClassVar

import onnx_ir as ir

from ffn_export.fusion.builder import Builder
from ffn_export.fusion.canonicalise.norm_in_pieces import NormInPieces


class LayerNorm(NormInPieces):
    """Layer normalisation in pieces, with or without a scale."""

    writes: ClassVar[str | None] = "LayerNormalization"
    is_centred: ClassVar[bool] = True

    def operator(self, op: Builder, x: ir.Value, scale: ir.Value, **attributes: float) -> ir.Value:
        """Write the operator."""
        y: ir.Value = op.LayerNormalization(x, scale, **attributes)
        return y
