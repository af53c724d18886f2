"""``SkipLayerNormalization`` and ``SkipSimplifiedLayerNormalization`` -> the sum and its norm, as standard operators.

It reads graphs that were fused for ONNX Runtime before. Covers: the bias; the sum as an output. Not covered: addends of
different shapes, and the statistics as outputs.
"""

from __future__ import annotations

from typing import ClassVar

import onnx_ir as ir

from ffn_export.fusion.builder import Builder
from ffn_export.fusion.rule import Found, Match, Rule
from ffn_export.fusion.shapes import are_alike
from ffn_export.fusion.views import float_of, input_at, is_read

_DEFAULT_EPSILON = 1e-12


class _SkipNormApart(Rule):
    site = "residual_norm"
    rows_before_bias: ClassVar[int]

    def match(self, node: ir.Node) -> Found:
        """Recognise the node by its name."""
        x, skip = input_at(node, 0), input_at(node, 1)
        if not are_alike(x, skip) or any(map(is_read, node.outputs[1:3])) or input_at(node, 2) is None:
            return None
        outputs = tuple(value for value in (*node.outputs[:1], *node.outputs[3:4]) if value is not None)
        kept = tuple(value for value in outputs if is_read(value) or value is node.outputs[0])
        return Match((node,), kept, lambda op: self._write(op, node)[: len(kept)])

    def _write(self, op: Builder, node: ir.Node) -> list[ir.Value]:
        x, skip, *given = node.inputs
        gains, bias = given[: self.rows_before_bias], input_at(node, 2 + self.rows_before_bias)
        total = op.Add(x, skip)
        if bias is not None:
            total = op.Add(total, bias)
        norm = op.LayerNormalization if self.rows_before_bias == 2 else op.RMSNormalization
        while gains[-1] is None:
            gains.pop()
        return [norm(total, *gains, axis=-1, epsilon=float_of(node, "epsilon", _DEFAULT_EPSILON)), total]


class SkipLayerNormApart(_SkipNormApart):
    """Residual sum and LayerNorm in one node."""

    writes = "LayerNormalization"
    ends = frozenset({("com.microsoft", "SkipLayerNormalization")})
    rows_before_bias = 2


class SkipRmsNormApart(_SkipNormApart):
    """Residual sum and RMSNorm in one node."""

    writes = "RMSNormalization"
    ends = frozenset({("com.microsoft", "SkipSimplifiedLayerNormalization")})
    rows_before_bias = 1
