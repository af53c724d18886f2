"""Fused forms that a target asks for. One form a file."""

from __future__ import annotations

from ffn_export.fusion.rule import Rule
from ffn_export.fusion.rules.quick_gelu import QuickGelu

RULES: tuple[type[Rule], ...] = (QuickGelu,)
