"""The many spellings of one function, raised to one standard operator. One operator a file."""

from __future__ import annotations

from ffn_export.fusion.canonicalise.gelu_erf import GeluErf
from ffn_export.fusion.canonicalise.gelu_tanh import GeluTanh
from ffn_export.fusion.canonicalise.rms_norm import RmsNorm
from ffn_export.fusion.canonicalise.swish import Swish
from ffn_export.fusion.canonicalise.transposed_activation import TransposedActivation
from ffn_export.fusion.rule import Rule

RULES: tuple[type[Rule], ...] = (GeluErf, GeluTanh, Swish, RmsNorm, TransposedActivation)
