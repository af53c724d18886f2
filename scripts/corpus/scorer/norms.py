"""Norms over the last axis, as one node or decomposed, and the sums that they read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from corpus.scorer.reading import SAME_ROWS, Graph, fingerprint, last_axis_only

SKIP_NORMS = frozenset({"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})
_WITH_AXIS = frozenset({"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"})
_CAST = frozenset({"Cast", "Identity"})


@dataclass(frozen=True)
class Norm:
    """A norm.

    Attributes:
        key: Names its kind and its scale.
        source: What it normalises.
        operators: The operators that it is written as.
    """

    key: str
    source: ir.Value
    operators: tuple[str, ...]

    @property
    def takes_sum(self) -> bool:
        """Say whether the node adds the residual too."""
        return self.operators[0] in SKIP_NORMS

    @property
    def is_one_node(self) -> bool:
        """Say whether it is complete."""
        return len(self.operators) == 1


def find_norms(graph: Graph) -> Iterator[Norm]:
    """Find the norms of a graph, in the order of its nodes."""
    for node in graph.nodes:
        norm = _one_node(graph, node) or _decomposed(graph, node)
        if norm is not None:
            yield norm


def _one_node(graph: Graph, node: ir.Node) -> Norm | None:
    source = node.inputs[0] if node.inputs else None
    if source is None:
        return None
    if node.op_type in SKIP_NORMS:
        biased = len(node.inputs) > 3 and node.inputs[3] is not None
        written = (node.op_type, *_bias_apart(graph, node, biased))
        return Norm(_key(graph, node.op_type, node.inputs[2]), source, written)
    if node.op_type in _WITH_AXIS:
        axis = node.attributes.get_int("axis", -1)
        if last_axis_only(node, [axis], source):
            biased = len(node.inputs) > 2 and node.inputs[2] is not None
            written = (node.op_type, *_bias_apart(graph, node, biased))
            return Norm(_key(graph, node.op_type, node.inputs[1]), source, written)
    return None


def _key(graph: Graph, operator: str, scale: ir.Value | None) -> str:
    """Name a norm; one that subtracts the mean is never another that does not."""
    array = graph.array(scale)
    return f"{_kind(operator)} {'ones' if array is None else fingerprint(array)}"


def _bias_apart(graph: Graph, node: ir.Node, biased: bool) -> tuple[str, ...]:
    """Return the Add of a bias that a node which subtracts the mean leaves to a node of its own."""
    if biased or _kind(node.op_type) == "rms":
        return ()
    users = graph.readers(node.outputs[0], _CAST)
    is_bias = len(users) == 1 and users[0][0].op_type == "Add" and any(map(graph.is_constant, users[0][0].inputs))
    return ("Add",) if is_bias else ()


def _kind(operator: str) -> str:
    return "rms" if "RMS" in operator or "Simplified" in operator else "layer"


def _decomposed(graph: Graph, mean: ir.Node) -> Norm | None:
    """Recognise a norm by the mean of its squares."""
    squared = graph.through(mean.inputs[0], _CAST) if mean.op_type == "ReduceMean" else None
    if squared is None or not _keeps_last_axis(graph, mean):
        return None
    centred = _square_root_of(graph, squared)
    if centred is None:
        return None
    steps: list[str] = []
    result = _normalised(graph, mean.outputs[0], centred, steps)
    if result is None:
        return None
    before, source = _before_centring(graph, centred)
    operator = "LayerNormalization" if before else "RMSNormalization"
    key = _key(graph, operator, None)
    for user, value in graph.readers(result, _CAST):
        scales = [given for given in user.inputs if given is not None and given is not value]
        if user.op_type == "Mul" and len(scales) == 1 and graph.is_constant(scales[0]):
            key = _key(graph, operator, scales[0])
            steps.append("Mul")
            steps.extend(_bias_apart(graph, user, biased=False) if before else ())
            break
    square = squared.producer()
    assert square is not None
    return Norm(key, source, (*before, square.op_type, "ReduceMean", *steps))


def _keeps_last_axis(graph: Graph, mean: ir.Node) -> bool:
    axes = mean.attributes.get_ints("axes", None)
    if axes is None and len(mean.inputs) > 1:
        array = graph.array(mean.inputs[1])
        axes = None if array is None else [int(axis) for axis in array.reshape(-1)]
    keeps = bool(mean.attributes.get_int("keepdims", 1))
    return keeps and last_axis_only(mean, None if axes is None else list(axes), mean.inputs[0])


def _square_root_of(graph: Graph, value: ir.Value) -> ir.Value | None:
    node = value.producer()
    if node is None:
        return None
    if node.op_type == "Pow" and graph.scalar(node.inputs[1]) == 2.0:
        return node.inputs[0]
    if node.op_type == "Mul" and _same(graph, node.inputs[0], node.inputs[1]):
        return node.inputs[0]
    return None


def _same(graph: Graph, one: ir.Value | None, other: ir.Value | None) -> bool:
    """Say whether two values are equal: one value, or the same difference computed twice."""
    one, other = graph.through(one, _CAST), graph.through(other, _CAST)
    if one is None or other is None or one is other:
        return one is other
    nodes = one.producer(), other.producer()
    if nodes[0] is None or nodes[1] is None or nodes[0].op_type != nodes[1].op_type:
        return False
    if nodes[0].op_type == "ReduceMean":
        return _same(graph, nodes[0].inputs[0], nodes[1].inputs[0])
    return nodes[0].op_type == "Sub" and all(
        _same(graph, *given) for given in zip(nodes[0].inputs, nodes[1].inputs, strict=True)
    )


def _normalised(graph: Graph, value: ir.Value, centred: ir.Value, steps: list[str]) -> ir.Value | None:
    """Follow the mean of the squares to what it divides; every step must be one of a norm."""
    inverse = False
    for _ in range(4):
        for user, name in graph.readers(value, _CAST):
            others = [given for given in user.inputs if given is not None and given is not name]
            if user.op_type in {"Mul", "Div"} and len(others) == 1 and _same(graph, others[0], centred):
                numerator_first = user.op_type == "Mul" or user.inputs[1] is name
                if steps and steps[-1] != "Add" and numerator_first and inverse == (user.op_type == "Mul"):
                    steps.append(user.op_type)
                    return user.outputs[0]
                return None
            step = _step(graph, user, others)
            if step is not None:
                steps.append(user.op_type)
                inverse |= step == "inverse"
                value = user.outputs[0]
                break
        else:
            return None
    return None


def _step(graph: Graph, node: ir.Node, others: list[ir.Value]) -> str | None:
    constants = [graph.scalar(other) for other in others]
    if node.op_type == "Add" and len(constants) == 1 and constants[0] is not None and abs(constants[0]) < 0.1:
        return "epsilon"
    if node.op_type == "Sqrt" or (node.op_type == "Pow" and constants == [0.5]):
        return "root"
    if node.op_type == "Reciprocal" or (node.op_type == "Pow" and constants == [-0.5]):
        return "inverse"
    if node.op_type == "Div" and constants == [1.0] and graph.is_constant(node.inputs[0]):
        return "inverse"
    return None


def _before_centring(graph: Graph, centred: ir.Value) -> tuple[tuple[str, ...], ir.Value]:
    """Return the operators that subtract the mean and what they read; none for an RMS norm."""
    node = (graph.through(centred, _CAST) or centred).producer()
    if node is not None and node.op_type == "Sub":
        mean = (graph.through(node.inputs[1], _CAST) or centred).producer()
        if mean is not None and mean.op_type == "ReduceMean" and _same(graph, mean.inputs[0], node.inputs[0]):
            assert node.inputs[0] is not None
            return ("ReduceMean", "Sub"), node.inputs[0]
    return (), centred


def summed(graph: Graph, norm: Norm) -> ir.Node | None:
    """Return the Add of two values of one shape that a norm reads."""
    value = graph.through(norm.source, SAME_ROWS)
    node = None if value is None else value.producer()
    if node is None or node.op_type != "Add" or any(map(graph.is_constant, node.inputs)):
        return None
    left, right = (given.shape if given is not None else None for given in node.inputs)
    if left is None or right is None:
        return node
    sizes = list(zip(left, right, strict=False))
    spread = any((a == 1) != (b == 1) for a, b in sizes)
    return None if len(left) != len(right) or spread else node
