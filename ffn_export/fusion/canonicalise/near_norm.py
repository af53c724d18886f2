"""Recognise functions that are nearly a norm: epsilon is added to the root, or is a floor below it.

``x / (sqrt(mean(x^2)) + epsilon)`` and ``x / max(sqrt(mean(x^2)), epsilon)`` differ from a norm in rows that are about
as small as epsilon. They are left alone, and reported. The root may be ``ReduceL2`` if a scale follows; without a scale
the result is a vector of length 1, which is not reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.fusion import algebra, constants
from ffn_export.fusion.algebra import ONE
from ffn_export.fusion.memory import remembered
from ffn_export.fusion.statistics import Centred, are_same, centred, mean_square
from ffn_export.fusion.views import input_at, inputs_of, producer

_ADDED = "epsilon is added to the root, not under it"
_FLOOR = "epsilon is a floor below the root, not added under it"
_FLOOR_OF_SQUARES = "epsilon is a floor below the mean of squares, not added to it"


@dataclass(frozen=True)
class NearNorm:
    """A function that is nearly a norm, and how it differs from one."""

    is_centred: bool
    problem: str
    nodes: tuple[ir.Node, ...]


@dataclass(frozen=True)
class _Root:
    """The root of a mean or a sum of squares, and the squared value."""

    of: ir.Value
    is_length: bool
    nodes: tuple[ir.Node, ...]


@remembered
def find(node: ir.Node) -> NearNorm | None:
    """Read the value that a node computes as nearly a norm."""
    graph = node.graph
    whole = algebra.product(node.outputs[0], graph)
    for value, exponent in whole.factors.items():
        found = _guarded(value, graph) if exponent == -1 else _floored(value, graph) if exponent == -0.5 else None
        if found is None:
            continue
        problem, root, nodes = found
        others = [factor for factor, power in whole.factors.items() if power == 1]
        centre = centred(root.of, graph)
        if not any(are_same(factor, root.of) or _is_centred_as(factor, centre, graph) for factor in others):
            continue
        if root.is_length and len(root.nodes) == 1 and len(others) == 1 and whole.coefficient == ONE:
            continue
        own = () if centre is None else centre.nodes
        return NearNorm(centre is not None, problem, tuple(dict.fromkeys((*whole.nodes, *nodes, *root.nodes, *own))))
    return None


def _is_centred_as(value: ir.Value, centre: Centred | None, graph: object) -> bool:
    """Whether a value is the centred one, computed another way or before it is centred a second time."""
    again = None if centre is None else centred(value, graph)
    if again is None or centre is None or again.axes != centre.axes:
        return False
    return centre.x is again.x or centre.x is value


def _guarded(value: ir.Value, graph: object) -> tuple[str, _Root, tuple[ir.Node, ...]] | None:
    """Read a divisor as a root kept from zero. Return the problem, the root, and the nodes that keep it from zero."""
    expand = producer(value, "Expand")
    node = producer(value if expand is None else input_at(expand, 0), "Add", "Clip", "Max", within=graph)
    if node is None:
        return None
    computed = _beside_constants(node)
    root = None if computed is None else _root(computed, graph)
    if root is None:
        return None
    return _ADDED if node.op_type == "Add" else _FLOOR, root, (node,) if expand is None else (expand, node)


def _floored(value: ir.Value, graph: object) -> tuple[str, _Root, tuple[ir.Node, ...]] | None:
    """Read the argument of a root as a mean of squares kept from zero."""
    node = producer(value, "Clip", "Max", within=graph)
    if node is None:
        return None
    computed = _beside_constants(node)
    statistic = None if computed is None else mean_square(computed, graph)
    return None if statistic is None else (_FLOOR_OF_SQUARES, _Root(statistic.root, False, statistic.nodes), (node,))


def _beside_constants(node: ir.Node) -> ir.Value | None:
    """Return the only computed input of a node whose other inputs are constant numbers."""
    computed = [given for given in inputs_of(node) if constants.number(given) is None]
    return computed[0] if len(computed) == 1 and len(node.inputs) > 1 else None


def _root(value: ir.Value, graph: object) -> _Root | None:
    product = algebra.product(value, graph)
    lengths = [producer(factor, "ReduceL2", within=graph) for factor, power in product.factors.items() if power == 1]
    if len(product.factors) == len(lengths) == 1 and (length := lengths[0]) is not None:
        source = input_at(length, 0)
        return None if source is None else _Root(source, True, (*product.nodes, length))
    squares = [factor for factor, power in product.factors.items() if power == 0.5]
    statistic = mean_square(squares[0], graph) if len(product.factors) == len(squares) == 1 else None
    return None if statistic is None else _Root(statistic.root, False, (*product.nodes, *statistic.nodes))
