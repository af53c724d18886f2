"""Recognise self-gated activations, ``x`` times a gate of ``x``: both kinds of GELU, Swish, Mish, HardSwish.

Each is a product of two factors that are not constant: ``x``, and a gate that is computed from ``x`` alone. The product
is read first, then the gate. Multiplied out, the activation is a sum ``a * x + b * x * g(x)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import onnx_ir as ir

from ffn_export.fusion import algebra
from ffn_export.fusion.algebra import Coefficient, Polynomial, Product
from ffn_export.fusion.memory import remembered
from ffn_export.fusion.views import input_at, inputs_of, is_standard, producer, rank

Kind = Literal["erf", "tanh", "sigmoid", "tanh of softplus", "clip", "hard sigmoid"]


@dataclass(frozen=True)
class Gated:
    """``coefficient * x * (offset + slope * g(argument))``, with the argument a polynomial in ``x``.

    Attributes:
        x: Input of the activation.
        kind: Function ``g``.
        argument: Argument of ``g``.
        offset: Constant part of the gate, times the coefficient of the product.
        slope: Factor of ``g``, times the coefficient of the product.
        inner: Node of ``g``.
        nodes: All nodes of the activation.
    """

    x: ir.Value
    kind: Kind
    argument: Polynomial
    offset: Coefficient
    slope: Coefficient
    inner: ir.Node
    nodes: tuple[ir.Node, ...]

    @property
    def is_known(self) -> bool:
        """Whether all its constants are known."""
        return all(c.is_known for c in (self.offset, self.slope, *self.argument.coefficients.values()))

    def widens(self) -> bool:
        """Whether a constant has more axes than ``x``, so that the result would have them too."""
        widest = max(self.offset.rank, self.slope.rank, self.argument.rank)
        width = rank(self.x)
        return widest > 0 and (width is None or widest > width)


@remembered
def read(node: ir.Node) -> tuple[Gated, ...]:
    """Read a node's result as ``x`` times a gate of ``x``, in every possible way."""
    y = node.outputs[0]
    return (*_product(y, node.graph), *_sum(y, node.graph))


def _product(y: ir.Value, graph: object) -> Iterator[Gated]:
    whole = algebra.product(y, graph)
    for gate in [factor for factor in whole.factors if abs(whole.factors[factor]) == 1]:
        for kind, argument, offset, slope, inner, nodes in _functions(gate, graph, whole.factors[gate]):
            for x in _candidates(y, gate, graph):
                full = algebra.product(y, graph, {x, gate})
                wanted = {x: 1.0, gate: whole.factors[gate]}
                polynomial, sign = algebra.polynomial(argument, x, graph), 1.0
                if dict(full.factors) != wanted or polynomial is None:
                    continue
                if kind in _ODD and all(c.number < 0 for c in polynomial.coefficients.values()):
                    # g(-u) = -g(u): an erfc, for example, may be spelled 1 - erf
                    polynomial, sign = polynomial.scaled(-1.0), -1.0
                scaled = [full.coefficient.times(c) for c in (offset, slope.scaled(sign))]
                assert scaled[0] is not None and scaled[1] is not None  # noqa: PT018 - one statement about both
                every = tuple(dict.fromkeys((*full.nodes, *nodes, *polynomial.nodes)))
                yield Gated(x, kind, polynomial, scaled[0], scaled[1], inner, every)


def _sum(y: ir.Value, graph: object) -> Iterator[Gated]:
    """Read ``c * (a * x + b * x * g)`` as ``x`` times ``c * a + c * b * g``."""
    outer = algebra.product(y, graph)
    is_plain = [*outer.factors.values()] == [1.0]
    add = producer(next(iter(outer.factors)), "Add", "Sub", within=graph) if is_plain else None
    if add is None or len(inputs_of(add)) != 2:
        return
    (left, right), sign = inputs_of(add), -1.0 if add.op_type == "Sub" else 1.0
    for alone, its_sign, with_gate, its_own in ((left, 1.0, right, sign), (right, sign, left, 1.0)):
        for gated in _product(with_gate, graph):
            plain = algebra.product(alone, graph, {gated.x})
            offset = outer.coefficient.times(plain.coefficient.scaled(its_sign))
            slope = outer.coefficient.times(gated.slope.scaled(its_own))
            if dict(plain.factors) != {gated.x: 1.0} or gated.offset.number != 0 or offset is None or slope is None:
                continue
            every = tuple(dict.fromkeys((*outer.nodes, add, *plain.nodes, *gated.nodes)))
            yield replace(gated, offset=offset, slope=slope, nodes=every)


_Function = tuple[Kind, ir.Value, Coefficient, Coefficient, ir.Node, tuple[ir.Node, ...]]
_ZERO = Coefficient(0.0)
_ODD = frozenset({"erf", "tanh"})


def _functions(gate: ir.Value, graph: object, power: float) -> Iterator[_Function]:
    """Read a gate as ``offset + slope * g(argument)``."""
    addends, nodes = algebra.terms(gate, graph, most=2)
    constant = [term.coefficient for term in addends if not term.factors]
    rest = [term for term in addends if term.factors]
    if len(rest) != 1 or len(constant) > 1 or len(rest[0].factors) != 1:
        return
    offset = constant[0] if constant else _ZERO
    ((value, exponent),) = rest[0].factors.items()
    inner = producer(value, within=graph)
    if inner is None or exponent != 1:
        return
    if power == -1:
        yield from _logistic(inner, rest[0], offset, (*nodes, *rest[0].nodes))
        return
    found = _inner(inner)
    if found is not None:
        kind, argument, own = found
        yield kind, argument, offset, rest[0].coefficient, inner, (*nodes, *rest[0].nodes, *own)


_KINDS: Mapping[str, Kind] = {
    "Clip": "clip",
    "Erf": "erf",
    "HardSigmoid": "hard sigmoid",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
}


def _inner(node: ir.Node) -> tuple[Kind, ir.Value, tuple[ir.Node, ...]] | None:
    x, kind = input_at(node, 0), _KINDS.get(node.op_type)
    if x is None or kind is None or node.domain != "":
        return None
    softplus = producer(x, "Softplus", within=node.graph) if kind == "tanh" else None
    argument = input_at(softplus, 0)
    if softplus is None or argument is None:
        return kind, x, (node,)
    return "tanh of softplus", argument, (node, softplus)


def _logistic(inner: ir.Node, term: Product, offset: Coefficient, nodes: tuple[ir.Node, ...]) -> Iterator[_Function]:
    """Read ``1 / (1 + exp(-u))`` as ``sigmoid(u)``, only if a node negates ``u``, so that ``u`` is a value."""
    negated = producer(input_at(inner, 0), "Neg", within=inner.graph)
    argument = input_at(negated, 0)
    is_logistic = is_standard(inner, "Exp") and offset.equals(1.0) and term.coefficient.equals(1.0)
    if negated is not None and argument is not None and is_logistic:
        axes = max(offset.rank, term.coefficient.rank)
        yield "sigmoid", argument, Coefficient(0.0, rank=axes), Coefficient(rank=axes), inner, (*nodes, inner, negated)


def _candidates(y: ir.Value, gate: ir.Value, graph: object) -> Iterator[ir.Value]:
    """Yield the values of a product that may be the input, deepest first: a product is not its own input."""
    seen: dict[ir.Value, None] = {}

    def visit(value: ir.Value | None, depth: int) -> None:
        if value is None or value is gate or depth > 4:
            return
        below = producer(value, "Mul", "Div", "Neg", within=graph)
        for each in () if below is None else below.inputs:
            visit(each, depth + 1)
        if value is not y and algebra.coefficient(value) is None:
            seen.setdefault(value)

    visit(y, 0)
    return iter(seen)
