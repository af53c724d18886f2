"""Small queries of nodes and values."""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx_ir as ir


def is_standard(node: ir.Node | None, *operators: str) -> bool:
    """Whether a node is one of these operators of the standard domain."""
    return node is not None and node.domain == "" and node.op_type in operators


def is_one_of(node: ir.Node, *operators: str) -> bool:
    """Whether a node is one of these operators, in the standard domain or in ONNX Runtime's."""
    return node.op_type in operators and node.domain in ("", "com.microsoft")


def inputs_of(node: ir.Node | None) -> tuple[ir.Value, ...]:
    """Return all inputs; an empty tuple if one is left out, or for no node."""
    inputs = () if node is None else node.inputs
    given = tuple(value for value in inputs if value is not None)
    return given if len(given) == len(inputs) else ()


def input_at(node: ir.Node | None, index: int) -> ir.Value | None:
    """Return an input, or None if it is left out, or the node has fewer, or for no node."""
    return node.inputs[index] if node is not None and index < len(node.inputs) else None


def orders(node: ir.Node | None) -> tuple[tuple[ir.Value, ir.Value], ...]:
    """Return the two inputs of a node in both orders; nothing for another number of inputs."""
    given = inputs_of(node)
    return ((given[0], given[1]), (given[1], given[0])) if len(given) == 2 else ()


def producer(value: ir.Value | None, *operators: str, within: object = None) -> ir.Node | None:
    """Return the node that computes a value, or None.

    Args:
        value: The value.
        operators: Standard operators that the node may be; any if none is named.
        within: Graph that the node must be in; None for any graph.
    """
    node = None if value is None else value.producer()
    if node is None or (operators and not is_standard(node, *operators)):
        return None
    return node if within is None or node.graph is within else None


def rank(value: ir.Value | None) -> int | None:
    """Return the rank, or None if it is not known."""
    return None if value is None or value.shape is None else len(value.shape)


def values_of(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the values that a graph itself defines: its inputs, initializers and results of nodes."""
    yield from dict.fromkeys((*graph.inputs, *graph.initializers.values()))
    for node in graph:
        yield from node.outputs


def is_read(value: ir.Value) -> bool:
    """Whether a value is read by a node or is a graph output."""
    return bool(value.uses()) or value.is_graph_output()


def only_reader(value: ir.Value) -> ir.Node | None:
    """Return the node that alone reads a value, in its graph and once; None if the value is a graph output."""
    uses = tuple(value.uses())
    reader, writer = uses[0][0] if len(uses) == 1 else None, value.producer()
    is_here = reader is not None and writer is not None and reader.graph is writer.graph
    return reader if is_here and not value.is_graph_output() else None


def float_of(node: ir.Node, name: str, default: float) -> float:
    """Return an attribute, or the standard's default if it is absent; NaN if it is no number."""
    attribute = node.attributes.get(name)
    if attribute is None:
        return default
    is_number = attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.INT) and not attribute.is_ref()
    return float(attribute.value) if is_number else math.nan


def int_of(node: ir.Node, name: str, default: int) -> int | None:
    """Return an attribute, or the standard's default if it is absent; None if it is no integer."""
    attribute = node.attributes.get(name)
    if attribute is None:
        return default
    return int(attribute.value) if attribute.type == ir.AttributeType.INT and not attribute.is_ref() else None


def ints_of(node: ir.Node, name: str) -> tuple[int, ...]:
    """Return an attribute of integers; an empty tuple if it is absent or of another type."""
    attribute = node.attributes.get(name)
    is_list = attribute is not None and attribute.type == ir.AttributeType.INTS and not attribute.is_ref()
    return tuple(attribute.value) if is_list and attribute is not None else ()


def string_of(node: ir.Node, name: str, default: str) -> str | None:
    """Return an attribute, or the standard's default if it is absent; None if it is no string."""
    attribute = node.attributes.get(name)
    if attribute is None:
        return default
    return str(attribute.value) if attribute.type == ir.AttributeType.STRING and not attribute.is_ref() else None


def opset_of(node: ir.Node) -> int:
    """Return the opset of the graph of a node; 0 if there is none."""
    return 0 if node.graph is None else node.graph.opset_imports.get("", 0)


def node_count(model: ir.Model) -> int:
    """Return the number of nodes, including those of subgraphs, without constants."""
    return sum(node.op_type != "Constant" for node in model.graph.all_nodes())
