"""Known shapes and contents of a graph's values, and the queries of the shape rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from math import gcd
from typing import TypeVar

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.shape_proofs.size import ONE, ZERO, Size
from ffn_export.fusion.views import int_of, ints_of

Shape = tuple[Size, ...]
Contents = tuple[Size | None, ...]
"""The elements of a small tensor of integers, flattened; None for each that is not known."""

MOST_ELEMENTS = 64


@dataclass(frozen=True)
class Partner:
    """A fact about a symbol ``v``: it equals a size ``s``, or an axis of ``v`` cannot widen one of ``s``.

    Attributes:
        size: Size ``s``.
        unless_zero: False: ``v == s``, or ``v >= 2`` and ``s != 1``. An element-wise operator that reads both fails
            unless they are equal, because neither broadcasts to the other. True: the same, or ``s == 0``. The result
            then has size ``s``, because only 1 broadcasts to 0.
    """

    size: Size
    unless_zero: bool


@dataclass
class Facts:
    """Shapes and small integer contents of values. A missing entry is unknown.

    Attributes:
        shapes: Value -> its shape.
        contents: Value -> its elements; 1 and 0 for True and False.
        partners: Symbol -> the size of the result of an element-wise operator that reads both (:class:`Partner`).
        taken: Names of symbolic axes of the model.
        floors: Symbol -> the size and the divisor whose quotient, rounded down, it is.
        bounds: Size -> a lower bound that its polynomial does not show.
    """

    shapes: dict[ir.Value, Shape] = field(default_factory=dict)
    contents: dict[ir.Value, Contents] = field(default_factory=dict)
    partners: dict[str, Partner] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=count)
    floors: dict[str, tuple[Size, int]] = field(default_factory=dict)
    bounds: dict[Size, int] = field(default_factory=dict)

    def is_at_least(self, size: Size, least: int) -> bool:
        """Whether a size is proven to be ``least`` or more."""
        return size.is_at_least(least) or self.bounds.get(size, least - 1) >= least

    def note_bound(self, size: Size, least: int) -> None:
        """Record that a size is ``least`` or more whenever the graph runs, if its polynomial does not show it."""
        if not size.is_at_least(least):
            self.bounds[size] = max(least, self.bounds.get(size, least))

    @contextmanager
    def within_body(self) -> Iterator[None]:
        """Drop at the end the bounds that were recorded inside a body, which may not run at all."""
        outer = dict(self.bounds)
        try:
            yield
        finally:
            self.bounds = outer

    def unknown(self) -> Size:
        """Return a new symbol."""
        name = next(name for number in self._numbers if (name := f"unknown_{number}") not in self.taken)
        return Size.of(name)

    def partner(self, size: Size, *, unless_zero: bool = False) -> Size:
        """Return a new symbol that is a partner of a size; a partner of a partner is one of the same size."""
        symbol, known = self.unknown(), self.partners.get(str(size))
        if known is not None:
            size, unless_zero = known.size, unless_zero or known.unless_zero
        self.partners[str(symbol)] = Partner(size, unless_zero)
        return symbol

    def smaller(self, a: Size, b: Size) -> Size | None:
        """Return the smaller of two numbers, or None if it is not known."""
        for one, other in ((a, b), (b, a)):
            if self.is_at_least(other - one, 0):
                return one
        for one, other in ((a, b), (b, a)):
            # The result is `other`; or it is `one`, which is 2 or more, and `other` is larger.
            if self.is_at_least(one, 2) and self.is_at_least(other, 0):
                return self.partner(other)
        return None

    def floor(self, size: Size, by: int) -> Size:
        """Return ``size / by``, rounded down; a divisor that is not positive ends the rule.

        Equal quotients become the same polynomial: multiples of ``by`` are taken out, a common factor is cancelled, and
        ``floor((floor(n / m) + c) / by)`` becomes ``floor((n + c * m) / (m * by))``.
        """
        if by < 1:
            raise ValueError(by)
        whole, rest = size.divided(by)
        if rest.constant is not None:
            return whole
        scale = gcd(by, *(coefficient for monomial, coefficient in rest.terms if monomial))
        left, _ = rest.divided(scale)
        by //= scale
        if by == 1:
            return whole + left
        symbol, added = left.symbol_and_constant()
        if symbol in self.floors:
            numerator, divisor = self.floors[symbol]
            return whole + self.floor(numerator + Size.of(added * divisor), divisor * by)
        name = f"({left})//{by}"
        while name in self.taken:
            name = f"({name})"  # an axis of the model has this name and may have another size
        self.floors[name] = left, by
        return whole + Size.of(name)

    def is_own(self, size: Size) -> bool:
        """Whether a size consists of symbolic axes that the model names."""
        return all(symbol in self.taken for monomial, _ in size.terms for symbol in monomial)

    def of(self, node: ir.Node, opset: int) -> View:
        """Return the view of a node that rules get."""
        return View(node, self, opset)


@dataclass(frozen=True)
class View:
    """A node with the known facts about its inputs, in a graph of this opset."""

    node: ir.Node
    facts: Facts
    opset: int

    def value(self, index: int) -> ir.Value | None:
        """Return an input, or None if it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return self.value(index) is not None

    def shape(self, index: int = 0) -> Shape | None:
        """Return the shape of an input."""
        value = self.value(index)
        return None if value is None else self.facts.shapes.get(value)

    def known(self, index: int = 0) -> Shape:
        """Return the shape of an input; one that is not known ends the rule."""
        return _known(self.shape(index))

    def elements(self, index: int = 0) -> Contents:
        """Return the elements of an input of integers; ones of unknown number end the rule."""
        return _known(self.contents(index))

    def contents(self, index: int = 0) -> Contents | None:
        """Return the elements of an input of integers, or None if not even their number is known."""
        value = self.value(index)
        if value is None:
            return None
        if (found := self.facts.contents.get(value)) is not None:
            return found
        shape = self.facts.shapes.get(value)
        size = shape[0].constant if shape is not None and len(shape) == 1 else None
        return (None,) * size if size is not None and size <= MOST_ELEMENTS else None

    def integers(self, index: int, attribute: str = "") -> tuple[int, ...] | None:
        """Return the integers of an input or, in earlier opsets, of an attribute; None if one is not known.

        If both are absent, return an empty tuple.
        """
        if self.has(index):
            found = [None if each is None else each.constant for each in self.contents(index) or (None,)]
            return None if None in found else tuple(each for each in found if each is not None)
        return ints_of(self.node, attribute) if attribute else ()

    def integer(self, attribute: str, default: int) -> int:
        """Return an attribute; an attribute of another type ends the rule."""
        found = int_of(self.node, attribute, default)
        if found is None:
            raise ValueError(attribute)
        return found

    def unknown(self, rank: int) -> Shape:
        """Return a shape of known rank and unknown sizes."""
        return tuple(self.facts.unknown() for _ in range(rank))

    def broadcast(self, shapes: Iterable[Shape | None]) -> Shape | None:
        """Return the shape of an element-wise result."""
        result: Shape = ()
        for shape in shapes:
            if shape is None:
                return None
            rank = max(len(result), len(shape))
            padded = [(ONE,) * (rank - len(each)) + each for each in (result, shape)]
            result = tuple(self.broadcast_size(a, b) for a, b in zip(*padded, strict=True))
        return result

    def broadcast_size(self, a: Size, b: Size) -> Size:
        """Return the broadcast size of one axis of two operands."""
        if b in (a, ONE):
            return a
        if a == ONE:
            return b
        for one in (a, b):
            if self.facts.is_at_least(one, 2) or one == ZERO:
                return one  # the other has the same size, or 1
        partners = [self.facts.partners.get(str(each)) for each in (a, b)]
        for partner, other in zip(partners, (b, a), strict=True):
            if partner is not None and partner.size == other:
                return other
        first, second = partners
        if first is None or second is None or first.size != second.size:
            return self.facts.unknown()
        if first.unless_zero or second.unless_zero:
            return self.facts.partner(first.size, unless_zero=True)
        return a  # each is this size, or 2 or more: different sizes fail


Rule = Callable[[View], Shape | list[Shape | None] | None]
"""Returns the shape of a node's output, or those of several in a list; None for one that is not known."""

_Known = TypeVar("_Known")


def _known(found: _Known | None) -> _Known:
    if found is None:
        raise ValueError("not known")
    return found


def at(axis: int, rank: int) -> int:
    """Return an axis counted from the front; one out of range ends the rule."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} of {rank}")
    return axis % rank


def product(sizes: Sequence[Size]) -> Size:
    """Return the product of sizes, 1 for none."""
    result = ONE
    for size in sizes:
        result = result * size
    return result


def contents_of_constant(value: ir.Value) -> Contents | None:
    """Return the elements of a small constant of integers or booleans."""
    tensor = constants.tensor_of(value)
    if tensor is None or tensor.size > MOST_ELEMENTS:
        return None
    if not (tensor.dtype.is_integer() or tensor.dtype == ir.DataType.BOOL):
        return None
    return tuple(Size.of(int(each)) for each in tensor.numpy().reshape(-1))
