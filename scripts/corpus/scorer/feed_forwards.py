"""Feed-forwards: products with constant matrices, and what is computed between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from corpus.scorer.reading import LAYOUT, SAME_ROWS, Graph, fingerprint

_PRODUCTS = frozenset({"MatMul", "Gemm", "FusedGemm", "FusedMatMul"})
_LINEAR = frozenset({"Add", "Sub", "Mul", "Div", "Neg"})
_CURVED = frozenset(
    {
        "Relu",
        "Gelu",
        "Erf",
        "Tanh",
        "Sigmoid",
        "Pow",
        "Sqrt",
        "Clip",
        "Softplus",
        "Softsign",
        "LeakyRelu",
        "Elu",
        "Selu",
        "Celu",
        "HardSwish",
        "HardSigmoid",
        "Mish",
        "Swish",
        "PRelu",
        "ThresholdedRelu",
        "Where",
        "Max",
        "Min",
        "Exp",
        "Expm1",
        "Log",
        "Abs",
        "Greater",
        "Less",
        "GreaterOrEqual",
        "LessOrEqual",
        "Equal",
        "Not",
        "And",
        "Or",
        "BiasGelu",
        "FastGelu",
        "QuickGelu",
        "BiasSplitGelu",
    }
)
_MOST_NODES = 60  # between two products; xIELU has 25


@dataclass(frozen=True)
class FeedForward:
    """A feed-forward.

    Attributes:
        key: Names its second matrix.
        gated: Whether it multiplies two projections.
        between: The operators of the computing nodes between its products.
    """

    key: str
    gated: bool
    between: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Say whether no node can be saved."""
        return len(self.between) <= (2 if self.gated else 1)


@dataclass(frozen=True)
class _Product:
    node: ir.Node
    source: ir.Value
    d_in: int
    d_out: int
    weight: ir.Value


def find_feed_forwards(graph: Graph) -> Iterator[FeedForward]:
    """Find the feed-forwards of a graph, in the order of their second products."""
    for node in graph.nodes:
        second = _product(graph, node)
        if second is None:
            continue
        found = _between(graph, second.source)
        if found is None:
            continue
        firsts, nodes = found
        if not _belong_together(graph, firsts, second):
            continue
        computing = [n for n in nodes if n.op_type not in LAYOUT]
        packed = len(firsts) == 1 and firsts[0].d_out == 2 * second.d_in
        gated = len(firsts) == 2 or packed
        curved = any(n.op_type in _CURVED for n in nodes) or any(_activates(f.node) for f in firsts)
        if curved or gated or _squares(computing):
            matrix = graph.array(second.weight)
            if matrix is not None:
                yield FeedForward(fingerprint(matrix), gated, tuple(n.op_type for n in _in_order(graph, computing)))


def whole_feed_forwards(graph: Graph) -> Iterator[str]:
    """Give the keys of the matrices of nodes that hold more than one of them: a feed-forward as one operator."""
    for node in graph.nodes:
        matrices = [v for v in node.inputs if v is not None and graph.is_constant(v) and _rank(v) == 2]
        if node.domain != "" and len(matrices) > 1 and not all(map(graph.is_constant, node.inputs)):
            for matrix in matrices:
                array = graph.array(matrix)
                if array is not None:
                    yield fingerprint(array)


def _rank(value: ir.Value) -> int | None:
    return len(value.shape) if value.shape is not None else None


def _product(graph: Graph, node: ir.Node) -> _Product | None:
    """Recognise a product of a value with a constant matrix."""
    if node.op_type not in _PRODUCTS or node.inputs[0] is None or graph.is_constant(node.inputs[0]):
        return None
    weight = node.inputs[1]
    matrix = graph.array(weight) if weight is not None else None
    if weight is None or matrix is None or matrix.ndim != 2 or node.attributes.get_int("transA", False):
        return None
    d_in, d_out = matrix.shape[::-1] if node.attributes.get_int("transB", False) else matrix.shape
    return _Product(node, node.inputs[0], d_in, d_out, weight)


def _between(graph: Graph, value: ir.Value) -> tuple[list[_Product], list[ir.Node]] | None:
    """Walk back to the products that a value comes from; None where something else is on the way."""
    firsts: dict[ir.Node, _Product] = {}
    nodes: dict[ir.Node, None] = {}
    open_values = [value]
    while open_values:
        node = open_values.pop().producer()
        if node is None or len(nodes) > _MOST_NODES:
            return None
        if node in firsts or node in nodes:
            continue
        first = _product(graph, node)
        if first is not None:
            firsts[node] = first
            continue
        if node.op_type not in LAYOUT | _LINEAR | _CURVED:
            return None
        nodes[node] = None
        data = node.inputs[:1] if node.op_type in LAYOUT - {"Concat"} else node.inputs
        open_values.extend(v for v in data if v is not None and not graph.is_constant(v))
    return list(firsts.values()), list(nodes)


def _belong_together(graph: Graph, firsts: list[_Product], second: _Product) -> bool:
    if not 1 <= len(firsts) <= 2 or any(first.d_in != second.d_out for first in firsts):
        return False
    if len({graph.through(first.source, SAME_ROWS | {"Transpose"}) for first in firsts}) != 1:
        return False
    widths = {first.d_out for first in firsts}
    return widths == {second.d_in} or (len(firsts) == 1 and widths == {2 * second.d_in})


def _activates(node: ir.Node) -> bool:
    return bool(node.attributes.get_string("activation", ""))


def _squares(nodes: list[ir.Node]) -> bool:
    return any(n.op_type == "Mul" and n.inputs[0] is n.inputs[1] for n in nodes)


def _in_order(graph: Graph, nodes: list[ir.Node]) -> list[ir.Node]:
    wanted = set(nodes)
    return [node for node in graph.nodes if node in wanted]
