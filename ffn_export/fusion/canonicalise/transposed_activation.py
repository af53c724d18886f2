"""``Transpose -> activation -> Transpose back`` -> the activation alone.

A kernel-1 convolution has its channels on the middle axis. Raised to a matrix product, it leaves a pair of
transposes around the activation that undo each other. Element-wise functions and Casts between them are not
affected, in any arrangement: ``x * g(x)`` reads the transposed value twice. A constant among them, such as a bias, is
transposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from ffn_export.core.activations import LINKS, OPERATORS
from ffn_export.fusion import constants
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.rule import Found, Match, Operator, Rule, standard
from ffn_export.fusion.views import input_at, inputs_of, ints_of, is_standard, producer

# With one input.
ELEMENTWISE: frozenset[Operator] = ((OPERATORS | LINKS) - {("com.microsoft", "BiasGelu")}) | standard(
    *("Abs", "Cast", "Erf", "Exp", "Identity", "Neg", "Reciprocal")
)
_OF_TWO = ("Add", "Sub", "Mul", "Div", "Pow")
_LARGEST = 8


class TransposedActivation(Rule):
    """Element-wise operators between two transposes that undo each other."""

    site = "feed_forward"
    writes = None
    ends = standard("Transpose")

    def match(self, node: ir.Node) -> Found:
        """Recognise the operators between the transposes."""
        back, end = ints_of(node, "perm"), input_at(node, 0)
        between = _Between(node.graph, len(back))
        if end is None or not between.grow(end) or not between.nodes or len(between.sources) != 1:
            return None
        (inner,) = between.sources
        x = input_at(inner, 0)
        if x is None or not _undo_each_other(ints_of(inner, "perm"), back):
            return None
        nodes = (node, *reversed(between.nodes), inner)
        given = {inner.outputs[0]: x}
        return Match(nodes, (node.outputs[0],), lambda op: [_write(op, given, between.nodes, back)[end]])


class _Between:
    """The element-wise nodes before a transpose.

    Attributes:
        nodes: The nodes, in the order of their computation.
        sources: The transposes that they read.
    """

    def __init__(self, graph: object, rank: int) -> None:
        self._graph, self._rank = graph, rank
        self.nodes: dict[ir.Node, None] = {}
        self.sources: set[ir.Node] = set()

    def grow(self, value: ir.Value) -> bool:
        """Read backwards from a value. Return False if it is computed from anything else."""
        node = producer(value, within=self._graph)
        if node is None or len(self.nodes) > _LARGEST:
            return False
        if is_standard(node, "Transpose"):
            self.sources.add(node)
        elif node not in self.nodes:
            if not _is_elementwise(node) or not all(map(self._is_read, node.inputs)):
                return False
            self.nodes[node] = None
        return len(self.nodes) <= _LARGEST

    def _is_read(self, value: ir.Value | None) -> bool:
        array = constants.evaluate(value)
        return value is not None and (self.grow(value) if array is None else array.ndim <= self._rank)


def _is_elementwise(node: ir.Node) -> bool:
    if is_standard(node, *_OF_TWO):
        return len(inputs_of(node)) == 2
    return (node.domain, node.op_type) in ELEMENTWISE and len(node.inputs) == 1


def _write(
    op: Builder, given: Mapping[ir.Value, ir.Value], between: Iterable[ir.Node], back: Sequence[int]
) -> Mapping[ir.Value, ir.Value]:
    """Write the nodes once more, on what is written for the values that they read."""
    written = dict(given)
    for node in between:
        operands = (written.get(value) or _turned(op, value, back) for value in inputs_of(node))
        (written[node.outputs[0]],) = op.like(node, *operands)
    return written


def _turned(op: Builder, value: ir.Value, back: Sequence[int]) -> ir.Value:
    """Transpose a constant like the value beside it, whose axes it shares from the last one on."""
    array = constants.evaluate(value)
    assert array is not None
    if array.size == 1:
        return value
    return op.constant(array.reshape((1,) * (len(back) - array.ndim) + array.shape).transpose(back), value.dtype)


def _undo_each_other(there: Sequence[int], back: Sequence[int]) -> bool:
    axes = list(range(len(there)))
    return bool(axes) and sorted(there) == sorted(back) == axes and [there[axis] for axis in back] == axes
