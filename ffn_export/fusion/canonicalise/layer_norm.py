"""``(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale`` -> ``LayerNormalization``.

Source: Ba, Kiros and Hinton 2016, "Layer Normalization", equation 4.
"""

from __future__ import annotations

from typing import ClassVar

from ffn_export.fusion.canonicalise.norm_in_pieces import NormInPieces


class LayerNorm(NormInPieces):
    """Decomposed layer normalisation, with or without a scale."""

    writes: ClassVar[str | None] = "LayerNormalization"
    is_centred: ClassVar[bool] = True
