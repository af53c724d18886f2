"""The many spellings of one function, raised to one standard operator. One operator a file."""

from __future__ import annotations

from ffn_export.fusion.canonicalise.einsum_product import EinsumProduct
from ffn_export.fusion.canonicalise.gelu import Gelu
from ffn_export.fusion.canonicalise.half_norm import HalfNorm
from ffn_export.fusion.canonicalise.hard_swish import HardSwish
from ffn_export.fusion.canonicalise.layer_norm import LayerNorm
from ffn_export.fusion.canonicalise.layer_norm_expanded import LayerNormExpanded
from ffn_export.fusion.canonicalise.mish import Mish
from ffn_export.fusion.canonicalise.norm_affine import NormBias, NormScale
from ffn_export.fusion.canonicalise.norm_of_rows import NormOfRows
from ffn_export.fusion.canonicalise.norm_of_sum import NormOfSum
from ffn_export.fusion.canonicalise.rms_norm import RmsNorm
from ffn_export.fusion.canonicalise.softplus import Softplus
from ffn_export.fusion.canonicalise.swish import Swish
from ffn_export.fusion.canonicalise.transposed_activation import TransposedActivation
from ffn_export.fusion.rule import Rule

RULES: tuple[type[Rule], ...] = (
    Gelu, Swish, Softplus, Mish, HardSwish,
    LayerNorm, LayerNormExpanded, RmsNorm, NormScale, NormBias, HalfNorm, NormOfRows, NormOfSum,
    EinsumProduct, TransposedActivation,
)  # fmt: skip
