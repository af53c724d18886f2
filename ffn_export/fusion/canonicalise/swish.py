"""``x * sigmoid(alpha * x)`` -> ``Swish(alpha)``: SiLU with alpha 1, quick GELU with 1.702.

Covers: any constant alpha, any operand order; the sigmoid as ``1 / (1 + exp(-x))``. Not covered: a product
with the sigmoid of another value, which is a gated feed-forward and no activation.

Source: Ramachandran, Zoph and Le 2017, "Searching for Activation Functions".
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion import self_gated
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.rule import Found, Refused, Rule, replacing, standard


class Swish(Rule):
    """Swish with its slope."""

    site = "feed_forward"
    writes = "Swish"
    ends = standard("Mul", "Div")

    def match(self, node: ir.Node) -> Found:
        """Recognise the product."""
        for found in self_gated.read(node):
            if found.kind != "sigmoid" or not found.argument.same_powers({1: 1.0}):
                continue
            if not found.is_known:
                return Refused("alpha is one that the caller may change", found.nodes)
            if not found.offset.equals(0.0) or not found.slope.equals(1.0):
                continue
            if found.widens():
                reason = "alpha has an axis, which may give the result one that the input lacks"
                return Refused(reason, found.nodes)
            alpha = found.argument.coefficients[1].number
            return replacing(found.nodes, node.outputs[0], self.write, found.x, alpha)
        return None

    def write(self, op: Builder, x: ir.Value, alpha: float) -> ir.Value:
        """Write the standard operator."""
        return op.Swish(x, alpha=alpha)
