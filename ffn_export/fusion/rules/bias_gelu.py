"""``Add -> Gelu`` -> ``com.microsoft::BiasGelu``: bias and exact GELU in one kernel; ``FastGelu`` for the tanh kind.

Covers: the bias on either side, in any shape that holds one number for each feature; reshapes between the
sum and the activation. Not covered: a bias that broadcasts otherwise.
"""

from __future__ import annotations

from typing import ClassVar

import onnx_ir as ir

from ffn_export.fusion import constants, layout, rows
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.rule import Found, Refused, Rule, replacing
from ffn_export.fusion.statistics import widths
from ffn_export.fusion.views import input_at, inputs_of, orders, producer, rank, string_of


class BiasGelu(Rule):
    """Bias and erf GELU."""

    site = "feed_forward"
    writes = "com.microsoft::BiasGelu"
    ends = frozenset({("", "Gelu"), ("com.microsoft", "Gelu")})
    approximate: ClassVar[str] = "none"

    def match(self, node: ir.Node) -> Found:
        """Recognise the sum before the activation."""
        x = input_at(node, 0)
        is_own = node.domain != "" or string_of(node, "approximate", "none") == self.approximate
        if x is None or len(node.inputs) != 1 or not is_own:
            return None
        seen = layout.before(x, node.graph)
        add = producer(seen.value, "Add", within=node.graph)
        if add is None:
            return None
        for data, bias in orders(add):
            sizes = widths(data, 1)
            if sizes is None or data is bias or constants.is_constant(data):
                continue
            if rows.fits(bias, rank(data), sizes) and bias.dtype == data.dtype:
                nodes = (node, *seen.nodes, add)
                return replacing(nodes, node.outputs[0], self._write, data, bias, sizes, seen.nodes)
        constant = next((value for value in inputs_of(add) if constants.is_constant(value)), None)
        if constant is None:
            return None  # a sum of two computed values is no bias
        return Refused(f"bias {constant.name!r} is not one number for each feature", (node, add))

    def _write(
        self, op: Builder, x: ir.Value, bias: ir.Value, sizes: list[int], moved: tuple[ir.Node, ...]
    ) -> ir.Value:
        assert self.writes is not None
        return layout.again(op, op.write(self.writes, x, rows.of(op, bias, sizes)), moved)


class FastGelu(BiasGelu):
    """Bias and tanh GELU."""

    writes = "com.microsoft::FastGelu"
    ends = frozenset({("", "Gelu"), ("com.microsoft", "FastGelu")})
    approximate = "tanh"
