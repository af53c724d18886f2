"""Read a value as a product, a sum or a polynomial, whatever nodes spell it.

``Mul(x, Reciprocal(Sqrt(v)))``, ``Div(x, Sqrt(v))`` and ``Mul(x, Pow(v, -0.5))`` are one product:
``x * v^(-1/2)``. Rules recognise functions in these terms, so they need not handle operand order, association, or the
choice between an operation and its inverse.

Reading stops at graph boundaries, at values that the caller names, and after ``_BUDGET`` nodes, so that the cost of a
visit does not depend on the size of the graph.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.memory import remembered
from ffn_export.fusion.views import inputs_of, is_standard, rank

_BUDGET = 24
_HIGHEST_POWER = 4


@dataclass(frozen=True)
class Coefficient:
    """The constant part of a product.

    Attributes:
        number: Value of the coefficient.
        rounding: Largest relative rounding error, from the dtypes of its constants.
        count: Number of constants that may be rounded; 0.5 and 3 are exact in every dtype.
        rank: Highest rank of its constants of one element, by which broadcasting may widen the result.
    """

    number: float = 1.0
    rounding: float = 0.0
    count: int = 0
    rank: int = 0

    def times(self, other: Coefficient, sign: int = 1) -> Coefficient | None:
        """Multiply by another, or divide by it if ``sign`` is -1; None for a division by zero."""
        if sign < 0 and other.number == 0:
            return None
        return Coefficient(
            self.number * other.number**sign,
            self.rounding + other.rounding,
            self.count + other.count,
            max(self.rank, other.rank),
        )

    def scaled(self, factor: float) -> Coefficient:
        """Multiply by an exact number, such as a sign."""
        return replace(self, number=factor * self.number)

    @property
    def is_known(self) -> bool:
        """Whether all its constants are fixed, so that no caller can change them."""
        return not math.isnan(self.number)

    def equals(self, expected: float) -> bool:
        """Whether it is ``expected``, up to the rounding of its constants.

        If ``expected`` is exact in every dtype, a single rounded constant near it is another number.
        """
        slack = self.rounding if self.count > 1 or not constants.is_exact(expected) else 0.0
        return abs(self.number - expected) <= (slack + 1e-12) * abs(expected)


ONE = Coefficient()


@dataclass(frozen=True)
class Product:
    """A value as ``coefficient * factor^exponent * ...``; without factors it is a constant.

    Attributes:
        coefficient: Constant part.
        factors: Values that are not read further, with their exponents.
        nodes: Nodes that were read, from the end backwards.
    """

    coefficient: Coefficient
    factors: Mapping[ir.Value, float]
    nodes: tuple[ir.Node, ...] = ()

    def scaled(self, factor: float) -> Product:
        """Multiply by an exact number, such as a sign."""
        return replace(self, coefficient=self.coefficient.scaled(factor))


def product(value: ir.Value, graph: object, stop: Collection[ir.Value] = ()) -> Product:
    """Read a value as a product. A value that is no product is the only factor.

    Args:
        value: Value to read.
        graph: Graph whose nodes may be read.
        stop: Values that are not read further.
    """
    return _whole_product(value, graph, frozenset(stop))


@remembered
def _whole_product(value: ir.Value, graph: object, stop: frozenset[ir.Value]) -> Product:
    return _product(value, graph, stop, [_BUDGET])


def _product(value: ir.Value, graph: object, stop: Collection[ir.Value], budget: list[int]) -> Product:
    constant = coefficient(value)
    if constant is not None:
        return Product(constant, {})
    atom = Product(ONE, {value: 1.0})
    node = value.producer()
    if node is None or value in stop or node.graph is not graph or budget[0] == 0:
        return atom
    budget[0] -= 1
    inputs = inputs_of(node)
    if is_standard(node, "Mul", "Div") and len(inputs) == 2:
        left, right = (_product(each, graph, stop, budget) for each in inputs)
        return _combined(node, left, right, 1 if node.op_type == "Mul" else -1) or atom
    if is_standard(node, "Neg") and len(inputs) == 1:
        inner = _product(inputs[0], graph, stop, budget)
        return Product(inner.coefficient.scaled(-1), inner.factors, (node, *inner.nodes))
    if is_standard(node, "Reciprocal") and len(inputs) == 1:
        return _combined(node, Product(ONE, {}), _product(inputs[0], graph, stop, budget), -1) or atom
    exponent = exponent_of(node)
    if exponent is not None:
        # Only whole powers are applied to the factors: sqrt(a * a) is |a|.
        if exponent.is_integer():
            inner = _product(inputs[0], graph, stop, budget)
            if inner.coefficient == ONE:
                powers = {factor: power * exponent for factor, power in inner.factors.items()}
                return Product(ONE, powers, (node, *inner.nodes))
        return Product(ONE, {inputs[0]: exponent}, (node,))
    return atom


def terms(
    value: ir.Value, graph: object, stop: Collection[ir.Value] = (), *, most: int
) -> tuple[tuple[Product, ...], list[ir.Node]]:
    """Read a value as a sum of products, and return them with the nodes of the sum.

    A value that is no sum is the only term. A sum of more than ``most`` terms returns no terms.
    """
    nodes: list[ir.Node] = []
    found: list[Product] = []
    waiting = deque([(value, 1.0)])
    while waiting:
        if len(found) + len(waiting) > most:
            return (), []
        value, sign = waiting.popleft()
        node = value.producer()
        if node is not None and node.graph is graph and value not in stop and coefficient(value) is None:
            inputs = inputs_of(node)
            if is_standard(node, "Add", "Sub") and len(inputs) == 2:
                nodes.append(node)
                waiting += [(inputs[0], sign), (inputs[1], -sign if node.op_type == "Sub" else sign)]
                continue
        found.append(product(value, graph, stop).scaled(sign))
    return tuple(found), nodes


@dataclass(frozen=True)
class Polynomial:
    """A value as a polynomial in another: exponent -> coefficient, and the nodes that spell it."""

    coefficients: Mapping[int, Coefficient]
    nodes: tuple[ir.Node, ...] = ()

    def equals(self, expected: Mapping[int, float]) -> bool:
        """Whether it has exactly these coefficients, up to the rounding of its constants."""
        return self.coefficients.keys() == expected.keys() and all(
            self.coefficients[power].equals(number) for power, number in expected.items()
        )

    def scaled(self, factor: float) -> Polynomial:
        """Multiply by an exact number, such as a sign."""
        return replace(self, coefficients={power: c.scaled(factor) for power, c in self.coefficients.items()})

    def same_powers(self, expected: Mapping[int, float]) -> bool:
        """Whether it has the same exponents, whatever its coefficients."""
        return self.coefficients.keys() == expected.keys()

    @property
    def rank(self) -> int:
        """Highest rank of its constants."""
        return max((c.rank for c in self.coefficients.values()), default=0)


def polynomial(value: ir.Value, x: ir.Value, graph: object) -> Polynomial | None:
    """Read a value as a polynomial in ``x``, or return None if it depends on anything else."""
    return _polynomial(value, x, graph, [_BUDGET])


def _polynomial(value: ir.Value, x: ir.Value, graph: object, budget: list[int]) -> Polynomial | None:
    if value is x:
        return Polynomial({1: ONE})
    constant = coefficient(value)
    if constant is not None:
        return Polynomial({0: constant})
    node = value.producer()
    if node is None or node.graph is not graph or budget[0] == 0:
        return None
    budget[0] -= 1
    inputs = inputs_of(node)
    exponent = exponent_of(node)
    parts = [_polynomial(each, x, graph, budget) for each in (inputs[:1] if exponent is not None else inputs)]
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    nodes = (node, *(n for part in known for n in part.nodes))
    result: dict[int, Coefficient] | None = None
    first = known[0].coefficients
    if exponent is not None and exponent.is_integer() and 0 < exponent <= _HIGHEST_POWER:
        result = dict(first)
        for _ in range(int(exponent) - 1):
            result = _times(result, first)
    elif is_standard(node, "Neg"):
        result = {power: c.scaled(-1) for power, c in first.items()}
    elif len(known) == 2:
        result = _binary(node, first, known[1].coefficients)
    # No recognised function has a higher degree, and each squaring would take four times as long.
    return None if result is None or max(result, default=0) > _HIGHEST_POWER else Polynomial(result, nodes)


def _binary(
    node: ir.Node, left: Mapping[int, Coefficient], right: Mapping[int, Coefficient]
) -> dict[int, Coefficient] | None:
    if is_standard(node, "Add"):
        return _plus(left, right, 1)
    if is_standard(node, "Sub"):
        return _plus(left, right, -1)
    if is_standard(node, "Mul"):
        return _times(left, right)
    if is_standard(node, "Div") and right.keys() == {0}:
        reciprocal = ONE.times(right[0], -1)
        return None if reciprocal is None else _times(left, {0: reciprocal})
    return None


def _plus(left: Mapping[int, Coefficient], right: Mapping[int, Coefficient], sign: int) -> dict[int, Coefficient]:
    total = dict(left)
    for power, c in right.items():
        base = total.get(power, Coefficient(0.0))
        axes, count = max(base.rank, c.rank), base.count + c.count
        total[power] = Coefficient(base.number + sign * c.number, max(base.rounding, c.rounding), count, axes)
    return total


def _times(left: Mapping[int, Coefficient], right: Mapping[int, Coefficient]) -> dict[int, Coefficient]:
    total: dict[int, Coefficient] = {}
    for a, ca in left.items():
        for b, cb in right.items():
            c = ca.times(cb)
            assert c is not None
            total = _plus(total, {a + b: c}, 1)
    return total


@remembered
def coefficient(value: ir.Value) -> Coefficient | None:
    """Return a constant of one element, of any rank, or None.

    A constant that a caller may override is a coefficient with an unknown number, so that its function is recognised
    and refused.
    """
    number = constants.number(value)
    if number is None and constants.is_overridable_number(value):
        number = math.nan
    if number is None:
        return None
    axes = constants.rank(value)
    if constants.is_exact(number):
        return Coefficient(number, rank=axes)
    return Coefficient(number, constants.relative_rounding(value), 1, axes)


def exponent_of(node: ir.Node) -> float | None:
    """Return the constant exponent of a ``Pow`` or ``Sqrt``, or None for any other node."""
    inputs = inputs_of(node)
    if is_standard(node, "Sqrt") and len(inputs) == 1:
        return 0.5
    if is_standard(node, "Pow") and len(inputs) == 2:
        power = constants.number(inputs[1])
        # An exponent with an axis may widen the result.
        axes, base = constants.rank(inputs[1]), rank(inputs[0])
        return power if axes == 0 or (base is not None and axes <= base) else None
    return None


def _combined(node: ir.Node, left: Product, right: Product, sign: int) -> Product | None:
    constant = left.coefficient.times(right.coefficient, sign)
    if constant is None:
        return None
    factors = dict(left.factors)
    for factor, exponent in right.factors.items():
        factors[factor] = factors.get(factor, 0.0) + sign * exponent
    return Product(constant, factors, (node, *left.nodes, *right.nodes))
