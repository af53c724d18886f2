"""Fused forms that a target asks for. One form a file."""

from __future__ import annotations

from ffn_export.fusion.rule import Rule
from ffn_export.fusion.rules.bias_gelu import BiasGelu, FastGelu
from ffn_export.fusion.rules.biased_gemm import BiasedGemm
from ffn_export.fusion.rules.fused_gemm import FusedGemm
from ffn_export.fusion.rules.gate_apart import GateApart
from ffn_export.fusion.rules.gate_packed import GatePacked
from ffn_export.fusion.rules.ort_gelu import OrtGelu
from ffn_export.fusion.rules.quick_gelu import QuickGelu
from ffn_export.fusion.rules.skip_norm import SkipLayerNorm, SkipRmsNorm

RULES: tuple[type[Rule], ...] = (
    QuickGelu, OrtGelu, BiasGelu, FastGelu, FusedGemm, BiasedGemm, GateApart, GatePacked, SkipLayerNorm, SkipRmsNorm,
)  # fmt: skip
