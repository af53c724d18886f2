"""``x / sqrt(mean(x^2) + epsilon) * scale`` -> ``RMSNormalization``.

Source: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", equation 4.
"""

from __future__ import annotations

from typing import ClassVar

from ffn_export.fusion.canonicalise.norm_in_pieces import NormInPieces


class RmsNorm(NormInPieces):
    """Decomposed root mean square normalisation, with or without a scale."""

    writes: ClassVar[str | None] = "RMSNormalization"
    is_centred: ClassVar[bool] = False
