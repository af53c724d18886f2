"""The nodes between the products of a feed-forward: element-wise, layout, and the halves of a packed product."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ffn_export.core.activations import LINKS, OPERATORS
from ffn_export.core.words import words
from ffn_export.fusion.rule import Operator, standard
from ffn_export.fusion.views import input_at, is_one_of, orders, producer

LAYOUT = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Cast", "Identity", "Flatten", "Dropout")
HALVES = ("Split", "Slice")
LARGEST = 32
# Element-wise operators.
ELEMENTWISE: frozenset[Operator] = (
    OPERATORS
    | LINKS
    | standard(
        *words(
            "Add Sub Mul Div Pow Sqrt Reciprocal Neg Abs Exp Log Erf Min Max Sign Where Less LessOrEqual Greater "
            "GreaterOrEqual Equal Not And Or PRelu Sum Sin Cos Floor Ceil Round"
        )
    )
)


@dataclass
class Region:
    """The nodes between a second product and the first products.

    Attributes:
        data_of: Function that returns the data input of a product with a weight; None for any other node.
        is_given: Function that tells whether a value is given, as a constant is, so that reading ends there.
        firsts: First products.
        computing: Computing nodes in between.
        seen: All nodes that were read.
        is_packed: Whether a node takes a part of a product's result.
    """

    data_of: Callable[[ir.Node], ir.Value | None]
    is_given: Callable[[ir.Value], bool]
    firsts: dict[ir.Node, None] = field(default_factory=dict)
    computing: dict[ir.Node, None] = field(default_factory=dict)
    seen: set[ir.Node] = field(default_factory=set)
    is_packed: bool = False

    def grow(self, value: ir.Value | None, graph: object) -> bool:
        """Read backwards from a value. Return False if anything else than a feed-forward is found."""
        if value is None or self.is_given(value):
            return value is not None
        node = producer(value, within=graph)
        if node is None or len(self.seen) > LARGEST:
            return False
        if node in self.seen:
            return True
        self.seen.add(node)
        if self.data_of(node) is not None:
            self.firsts[node] = None
            return True
        if is_one_of(node, *LAYOUT, *HALVES):
            self.is_packed = self.is_packed or node.op_type in HALVES
            return self.grow(input_at(node, 0), graph)
        if not self.computes(node):
            return False
        self.computing[node] = None
        return bool(node.inputs) and all(self.grow(each, graph) for each in node.inputs if each is not None)

    def computes(self, node: ir.Node) -> bool:
        """Whether a node may stand between the products."""
        return (node.domain, node.op_type) in ELEMENTWISE

    @property
    def source(self) -> ir.Value | None:
        """The common input of the one or two first products; None if they are more, or read different values."""
        sources = {through(data, LAYOUT) for node in self.firsts if (data := self.data_of(node)) is not None}
        return sources.pop() if len(sources) == 1 and len(self.firsts) <= 2 else None

    @property
    def shaped(self) -> list[ir.Node]:
        """The computing nodes without sums with a bias, in topological order."""
        # ``computing`` is in reading order: from the end backwards.
        biases = self.biases
        return [node for node in self.computing if node not in biases][::-1]

    @property
    def biases(self) -> Collection[ir.Node]:
        """The nodes that add a given value to a first product, before anything else is computed of it."""
        plain = {node for node in self.firsts if not is_one_of(node, "FusedGemm")}
        found: set[ir.Node] = set()
        sums = [node for node in self.computing if is_one_of(node, "Add")]
        while more := {node for node in sums if node not in found and self._adds_to(node, plain | found)}:
            found |= more
        return found

    @property
    def is_gated(self) -> bool:
        """Whether an activation is multiplied by another projection."""
        return len(self.firsts) == 2 or (self.is_packed and any(map(self._is_gating, self.shaped)))

    @property
    def activation(self) -> list[ir.Node]:
        """The nodes of the activation."""
        shaped = self.shaped
        outermost = next(filter(self._is_gating, reversed(shaped)), None) if self.is_gated else None
        return [node for node in shaped if node is not outermost]

    def _is_gating(self, node: ir.Node) -> bool:
        return is_one_of(node, "Mul") and not self._reads_given(node)

    def _adds_to(self, node: ir.Node, before: Collection[ir.Node]) -> bool:
        """Whether a node adds a given value to the result of one of some nodes."""
        return any(self.is_given(given) and through(value).producer() in before for value, given in orders(node))

    def _reads_given(self, node: ir.Node) -> bool:
        return any(value is not None and self.is_given(value) for value in node.inputs)


def back(value: ir.Value, movers: Sequence[str] = LAYOUT) -> Iterator[ir.Value]:
    """Yield a value, and what it was before each node that moves data without computing."""
    before: ir.Value | None = value
    while before is not None:
        yield before
        node = before.producer()
        before = input_at(node, 0) if node is not None and is_one_of(node, *movers) else None


def through(value: ir.Value, movers: Sequence[str] = (*LAYOUT, *HALVES)) -> ir.Value:
    """Step back over nodes that move data without computing: layout, and the halves of a packed product."""
    *_, first = back(value, movers)
    return first
