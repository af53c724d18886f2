"""Facts about tensors, and what the rule of an operator is given to infer them.

A fact has the origin of a tensor's numbers, its shape, and its numbers if they are computed from sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.parity.cases.sizes.expressions import Expression, Expressions

Shape = tuple[Expression, ...]
Items = np.ndarray[Any, np.dtype[np.object_]]

# Of a larger tensor only one element is recorded.
MOST_ITEMS = 64
# Operations whose operators of ONNX take any number of operands, also one.
_OF_SEVERAL = frozenset({"+", "*", "min", "max"})


class Kind(IntEnum):
    """Origin of a tensor's numbers. The largest kind among a node's inputs decides."""

    CONSTANT = 0  # the graph
    SPREAD = 1  # the graph, but sizes decide how many
    SIZE = 2  # sizes
    DATA = 3  # the inputs


@dataclass(frozen=True)
class Fact:
    """Facts about one tensor.

    Attributes:
        kind: Origin of the numbers.
        shape: Size of each axis; None if the rank is unknown.
        items: All elements, if they are few and known.
        last: The last element, or one that represents all.
        is_float: Whether the elements are floating-point numbers, which ``Div`` does not truncate.
        is_same: Whether all elements are equal.
    """

    kind: Kind
    shape: Shape | None = None
    items: Items | None = None
    last: Expression | None = None
    is_float: bool = False
    is_same: bool = False

    @property
    def sample(self) -> Expression | None:
        """The last element, or None if unknown."""
        if self.items is not None and self.items.size:
            found: Expression = self.items.reshape(-1)[-1]
            return found
        return self.last

    @property
    def numbers(self) -> list[int] | None:
        """All elements as integers, or None if one depends on sizes or is unknown."""
        return None if self.items is None else integers(self.items.reshape(-1))

    @property
    def expressions(self) -> list[Expression]:
        """All known elements."""
        if self.items is not None:
            return list(dict.fromkeys(self.items.reshape(-1)))
        return [] if self.last is None else [self.last]


DATA = Fact(Kind.DATA)


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

    def moved(self, given: Fact, shape: Shape | None) -> Fact:
        """Return the fact of a tensor with the elements of another in a shape, of which only one is recorded."""
        return Fact(self.kind, shape, None, given.sample, given.is_float, given.is_same)

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
        """Apply an operation of two operands from left to right; of one operand, as the sum of one, it is that."""
        if len(operands) == 1 and name in _OF_SEVERAL:
            return operands[0]
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


def integers(items: Iterable[Expression]) -> list[int] | None:
    """Return expressions as integers, or None if one depends on sizes or is unknown."""
    found = [item.number for item in items]
    return [int(number) for number in found if number is not None] if None not in found else None


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


def mapped(change: Callable[..., Expression], array: Items | Array) -> Items:
    """Apply a function to each element."""
    return as_items(np.frompyfunc(change, 1, 1)(array))


def as_items(found: Any) -> Items:
    """Return an array of expressions; NumPy gives the element itself of an array without axes."""
    return found if isinstance(found, np.ndarray) else scalar(found)
