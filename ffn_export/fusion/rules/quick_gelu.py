"""Swish, decomposed or as one operator -> ``com.microsoft::QuickGelu(alpha)``: one kernel in ONNX Runtime.

ONNX Runtime has no kernel for ``Swish``. It runs the function body, Cast, Mul, Sigmoid and Mul, at opset 24 only. Its
QuickGelu is the same function, ``x * sigmoid(alpha * x)``, at any opset.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from ffn_export.fusion.builder import Builder
from ffn_export.fusion.canonicalise.swish import Swish
from ffn_export.fusion.rule import Found, replacing, standard
from ffn_export.fusion.views import float_of, input_at, is_standard


class QuickGelu(Swish):
    """Swish as ONNX Runtime's QuickGelu."""

    writes = "com.microsoft::QuickGelu"
    ends = Swish.ends | standard("Swish")

    def match(self, node: ir.Node) -> Found:
        """Recognise the decomposed or the canonical operator."""
        x = input_at(node, 0)
        if not is_standard(node, "Swish"):
            return super().match(node)
        alpha = float_of(node, "alpha", 1.0)
        if x is None or math.isnan(alpha):
            return None
        return replacing((node,), node.outputs[0], self.write, x, alpha)

    def write(self, op: Builder, x: ir.Value, alpha: float) -> ir.Value:
        """Write the operator with its alpha: the defaults of the two operators differ."""
        return op.write("com.microsoft::QuickGelu", x, alpha=alpha)
