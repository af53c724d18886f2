"""``x * min(max(x + 3, 0), 6) / 6`` -> ``HardSwish``.

Covers: the factor as ``HardSigmoid`` or as ``Clip``, divided before or after. Not covered: the clip as
``Min`` and ``Max``.

Source: Howard et al. 2019, "Searching for MobileNetV3", section 5.2.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from ffn_export.fusion import constants, self_gated
from ffn_export.fusion.rule import Found, Rule, replacing, standard
from ffn_export.fusion.self_gated import Gated
from ffn_export.fusion.views import float_of, input_at


class HardSwish(Rule):
    """Decomposed HardSwish."""

    site = "feed_forward"
    writes = "HardSwish"
    ends = standard("Mul", "Div")

    def match(self, node: ir.Node) -> Found:
        """Recognise the product."""
        for found in self_gated.read(node):
            if found.offset.equals(0.0) and not found.widens() and (_by_hard_sigmoid(found) or _by_clip(found)):
                return replacing(found.nodes, node.outputs[0], lambda op, x: op.HardSwish(x), found.x)
        return None


def _by_hard_sigmoid(found: Gated) -> bool:
    if found.kind != "hard sigmoid" or not found.argument.equals({1: 1.0}) or not found.slope.equals(1.0):
        return False
    alpha, beta = float_of(found.inner, "alpha", 0.2), float_of(found.inner, "beta", 0.5)
    return abs(alpha - 1 / 6) < 1e-8 and beta == 0.5


def _by_clip(found: Gated) -> bool:
    if found.kind != "clip" or not found.argument.equals({0: 3.0, 1: 1.0}) or not found.slope.equals(1 / 6):
        return False
    low, high = (constants.number(input_at(found.inner, place)) for place in (1, 2))
    if len(found.inner.inputs) == 1:  # attributes, up to opset 10
        low, high = (float_of(found.inner, name, math.nan) for name in ("min", "max"))
    return low == 0 and high == 6
