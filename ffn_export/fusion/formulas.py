"""Recognise an activation that no single operator computes by its formula."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from ffn_export.core.formula import Call, Term, X, calls
from ffn_export.fusion import constants
from ffn_export.fusion.operator_names import inner_activation, inner_operator, operator_activation
from ffn_export.fusion.region import LAYOUT, through
from ffn_export.fusion.views import inputs_of, is_one_of, is_standard

_COMMUTATIVE = ("Add", "Equal", "Max", "Min", "Mul")
# What may stand between two nodes of a formula that reads its input more than once: the others move numbers.
_STILL = ("Cast", "Dropout", "Identity")


@dataclass(frozen=True)
class _Read:
    """What was read of a formula.

    Attributes:
        x: The input of the activation, or the ``FusedGemm`` or ``BiasGelu`` that holds it; None before it is met.
        nodes: Nodes that compute the formula.
        movers: Operators that may stand between them.
    """

    x: ir.Value | ir.Node | None = None
    nodes: frozenset[ir.Node] = frozenset()
    movers: Sequence[str] = LAYOUT

    @classmethod
    def none(cls, formula: Call) -> _Read:
        """Return what is read of a formula at first."""
        times = sum(call.inputs.count(X) for call in calls(formula))
        return cls(movers=LAYOUT if times == 1 else _STILL)

    def with_x(self, x: ir.Value | ir.Node) -> Iterator[_Read]:
        """Yield this with the input, unless another value is the input."""
        if self.x is None or self.x is x:
            yield replace(self, x=x)


def computes(
    formula: Call, activated: Sequence[ir.Node], nodes: Sequence[ir.Node], biases: Collection[ir.Node] = ()
) -> bool:
    """Whether nodes compute a formula and no more.

    Args:
        formula: The formula.
        activated: First products that hold an activation.
        nodes: The nodes behind them; the last one ends the formula.
        biases: Sums before them, which may belong to the formula.
    """
    ways = _read(formula, nodes[-1].outputs[0], _Read.none(formula)) if nodes else ()
    every = {*activated, *nodes}
    return any(read.nodes >= every and read.nodes <= every.union(biases) for read in ways)


def begins(formula: Call, node: ir.Node) -> bool:
    """Whether a node reads the input of a formula that it computes with others, whose results only they read."""
    ends, reached = [node], {node}
    for _ in calls(formula):
        for end in ends:
            for read in _read(formula, end.outputs[0], _Read.none(formula)):
                inner = read.nodes - {end}
                given = (through(value, read.movers) for value in inputs_of(node))
                is_first = node in read.nodes and any(value is read.x for value in given)
                if is_first and all(read.nodes.issuperset(_readers(each.outputs[0])) for each in inner):
                    return True
        following = (each for end in ends for each in _readers(end.outputs[0]))
        ends = [each for each in following if each.outputs and each not in reached]
        reached.update(ends)
    return False


def _read(term: Term, value: ir.Value, before: _Read) -> Iterator[_Read]:
    """Yield each way in which a value is a term of a formula, with what was read before."""
    value = through(value, before.movers)
    if isinstance(term, float):
        number = constants.number(value)
        slack = 0.0 if constants.is_exact(term) else constants.relative_rounding(value)
        if number is not None and abs(number - term) <= slack * abs(term):
            yield before
    elif isinstance(term, str):
        yield from before.with_x(value)
    elif (node := value.producer()) is not None:
        found = replace(before, nodes=before.nodes | {node})
        inputs = inputs_of(node)
        is_named = term.operator == operator_activation(node)
        if term.inputs == (X,) and (
            term.operator in (inner_operator(node), inner_activation(node)) or (is_named and len(inputs) > 1)
        ):
            yield from found.with_x(node)
        if is_named and len(inputs) == 1:
            yield from _read(term.inputs[0], inputs[0], found)
        for terms in _spelled(term, node):
            ways = [found] if len(terms) == len(inputs) else []
            for each, given in zip(terms, inputs, strict=False):
                ways = list(dict.fromkeys(further for way in ways for further in _read(each, given, way)))
            yield from ways


def _spelled(call: Call, node: ir.Node) -> Iterator[Sequence[Term]]:
    """Yield what the inputs of a node are, in order, if it is a spelling of an operator."""
    if not is_standard(node, node.op_type):
        return
    first, *others = call.inputs
    number = others[0] if others and isinstance(others[0], float) else None
    if node.op_type == call.operator:
        yield call.inputs
        if call.operator in _COMMUTATIVE and others:
            yield (*others, first)
    match call.operator, node.op_type:
        case "Add", "Sub" if number is not None:
            yield first, -number
        case "Mul", "Div" if number:
            yield first, 1 / number
        case "Pow", "Mul" if number == 2 and len(set(node.inputs)) == 1:
            yield first, first
        case "Div", "Reciprocal" if first == 1:
            yield (others[0],)
        case "Reciprocal", "Div":
            yield 1.0, first


def _readers(value: ir.Value) -> Iterator[ir.Node]:
    """Yield the nodes that read a value, also through nodes that only move it."""
    for user, _ in value.uses():
        if is_one_of(user, *LAYOUT):
            for moved in user.outputs:
                yield from _readers(moved)
        else:
            yield user
