"""Finds a pattern whatever the order of the operands of its commutative operators.

onnxscript's ``commute()`` makes one pattern for each combination of orders: 2^8 for a tanh GELU, all of
them tried on every ``Mul``. This matcher swaps operands as it meets them and goes back where that fails.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript.rewriter import MatchResult
from onnxscript.rewriter._matcher import SimplePatternMatcher

COMMUTATIVE = frozenset({("", "Add", ""), ("", "Mul", "")})


class AnyOrderMatcher(SimplePatternMatcher):
    """Onnxscript's matcher, with a search over operand orders; complete, and the written order comes first."""

    def __init__(self, pattern: Any) -> None:
        super().__init__(pattern)
        self._orders: list[bool] = []  # one per commutative pattern node, in the order they are met
        self._met = 0

    def match(
        self,
        model: ir.Model,
        graph_or_function: ir.Graph | ir.Function,
        node: ir.Node,
        *,
        verbose: int = 0,
        remove_nodes: bool = True,
        tracer: Any = None,
    ) -> MatchResult:
        """Match the pattern against the nodes that end at this one."""
        self._orders = []
        while True:
            self._met = 0
            found = super().match(
                model, graph_or_function, node, verbose=verbose, remove_nodes=remove_nodes, tracer=tracer
            )
            # Depth first: the last choice that has another order left is the next to change.
            while self._orders and self._orders[-1]:
                self._orders.pop()
            if found or not self._orders:
                return found
            self._orders[-1] = True

    def _match_node(self, pattern_node: Any, node: ir.Node) -> bool:
        if not self._swapped(pattern_node):
            return super()._match_node(pattern_node, node)
        pattern_node.inputs.reverse()
        try:
            return super()._match_node(pattern_node, node)
        finally:
            pattern_node.inputs.reverse()

    def _swapped(self, pattern_node: Any) -> bool:
        """Whether to swap the operands of a pattern node this time; a new choice starts as no."""
        if pattern_node.op_identifier() not in COMMUTATIVE or pattern_node.inputs[0] is pattern_node.inputs[1]:
            return False
        if self._met == len(self._orders):
            self._orders.append(False)
        self._met += 1
        return self._orders[self._met - 1]
