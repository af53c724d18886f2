"""``x * tanh(softplus(x))`` -> ``Mish``.

Covers: any operand order. Not covered: a decomposed softplus.

Source: Misra 2019, "Mish: A Self Regularized Non-Monotonic Activation Function", equation 1.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion import self_gated
from ffn_export.fusion.rule import Found, Rule, replacing, standard


class Mish(Rule):
    """Decomposed Mish."""

    site = "feed_forward"
    writes = "Mish"
    ends = standard("Mul")

    def match(self, node: ir.Node) -> Found:
        """Recognise the product."""
        for found in self_gated.read(node):
            right = found.offset.equals(0.0) and found.slope.equals(1.0) and found.argument.equals({1: 1.0})
            if found.kind == "tanh of softplus" and right and not found.widens():
                return replacing(found.nodes, node.outputs[0], lambda op, x: op.Mish(x), found.x)
        return None
