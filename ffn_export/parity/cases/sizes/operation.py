"""What a rule is given: a node, the facts of its inputs, and how to make the fact of its output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.parity.cases.sizes.expressions import Expression, Expressions
from ffn_export.parity.cases.sizes.facts import Fact, Items, Kind

Shape = tuple[Expression, ...]


@dataclass(frozen=True)
class Operation:
    """One node on the walk.

    Attributes:
        node: The node.
        inputs: Facts of its inputs; None for one that is left out.
        kind: Origin of the output's numbers.
        make: Factory of expressions.
    """

    node: ir.Node
    inputs: Sequence[Fact | None]
    kind: Kind
    make: Expressions

    def known(self, items: Items, *, is_float: bool = False) -> Fact:
        """Return the fact of a tensor whose elements are all known."""
        return Fact(self.kind, self.make.shape(items.shape), items, None, is_float)

    def broadcast(self, shapes: Sequence[Shape | None]) -> Shape | None:
        """Return the broadcast shape, or None if one is unknown."""
        if any(shape is None for shape in shapes):
            return None
        known = [shape for shape in shapes if shape is not None]
        one = self.make.number(1)
        rank = max(map(len, known))
        aligned = [(one,) * (rank - len(shape)) + shape for shape in known]
        return tuple(next((size for size in axis if size is not one), one) for axis in zip(*aligned, strict=True))

    def folded(self, name: str, operands: Sequence[Expression]) -> Expression:
        """Apply an operation of two operands from left to right."""
        if len(operands) <= 2 or name == "where":
            return self.make.of(name, *operands)
        return self.folded(name, [self.make.of(name, *operands[:2]), *operands[2:]])

    def unknown(self, what: str) -> Expression:
        """Return a symbol for a number that is not known."""
        return self.make.unknown(f"{what} of {self.node.outputs[0].name}")

    def sizes(self, place: int) -> Shape | None:
        """Return the elements of an input of sizes, or None if it is left out or they are unknown."""
        fact = self.inputs[place] if place < len(self.inputs) else None
        return None if fact is None or fact.items is None else tuple(fact.items.reshape(-1))

    def integers(self, place: int) -> list[int] | None:
        """Return the elements of an input, or None if it is left out or one depends on sizes."""
        fact = self.inputs[place] if place < len(self.inputs) else None
        return None if fact is None else fact.numbers


Rule = Callable[[Operation], Fact]


def vector(items: Sequence[Expression]) -> Items:
    """Return expressions as a 1-D tensor."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def scalar(item: Expression) -> Items:
    """Return an expression as a tensor without axes."""
    array = np.empty((), dtype=object)
    array[()] = item
    return array


def is_one(fact: Fact) -> bool:
    """Whether a tensor has one element, which is known."""
    return fact.items is not None and fact.items.size == 1
