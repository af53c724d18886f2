"""The nodes that runtimes compute, wherever a model keeps them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.core.node_graphs import graphs_of
from ffn_export.fusion.functions import inline


def computed_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """Yield the nodes of a graph and its subgraphs, and those of functions that they call.

    A call is among them as well: native kernels compute a node of ``ai.ffn_export`` by its attributes, and other
    runtimes by its body. A function that cannot be inlined gives the nodes of its body once, except those with
    an attribute that its calls decide (:func:`given_by_calls`). The body of a runtime's operator is left out.
    """
    computed = inline.computed(model)
    if computed is not model:
        yield from (node for node in model.graph.all_nodes() if node.op_identifier() in model.functions)
    yield from computed.graph.all_nodes()
    for function in _left(computed):
        yield from (node for node in function.all_nodes() if not any(a.is_ref() for a in node.attributes.values()))


def nodes_of_outputs(model: ir.Model) -> dict[str, tuple[ir.Node, ...]]:
    """Return output -> the nodes that it depends on, in subgraphs and functions, too."""
    computed = inline.computed(model)
    return {str(output.name): tuple(_behind(computed, output)) for output in computed.graph.outputs}


def _behind(model: ir.Model, output: ir.Value) -> Iterator[ir.Node]:
    found: set[ir.Node] = set()
    waiting = [output.producer()]
    while waiting:
        node = waiting.pop()
        if node is None or node in found:
            continue
        found.add(node)
        yield node
        waiting += [value.producer() for value in node.inputs if value is not None]
        waiting += [inner for graph in graphs_of(node) for inner in graph]
        key = node.op_identifier()
        if key in model.functions and not inline.is_of_runtime(key):
            waiting += model.functions[key]


def given_by_calls(model: ir.Model) -> Iterator[str]:
    """Yield one line for each function that :func:`computed_nodes` reads without what its calls give it.

    Such a function cannot be inlined, and a call gives it an attribute or a constant, such as an epsilon.
    """
    computed = inline.computed(model)
    left = {function.identifier(): function for function in _left(computed)}
    nodes = [*computed.graph.all_nodes(), *(node for function in left.values() for node in function.all_nodes())]
    for key, function in left.items():
        calls = [node for node in nodes if node.op_identifier() == key]
        if function.attributes or any(_is_constant(value) for node in calls for value in node.inputs):
            yield (
                f"function {function.domain}::{function.name} cannot be written into the graph: the checks of numbers "
                "and operators read its body without the attributes and constants of its calls"
            )


def _left(computed: ir.Model) -> Iterator[ir.Function]:
    """Yield the functions that a graph still calls, directly or through others, but those of a runtime's operators."""
    found: set[ir.OperatorIdentifier] = set()
    waiting: list[ir.Graph | ir.Function] = [computed.graph]
    while waiting:
        for node in waiting.pop().all_nodes():
            key = node.op_identifier()
            if key in computed.functions and key not in found and not inline.is_of_runtime(key):
                found.add(key)
                waiting.append(computed.functions[key])
                yield computed.functions[key]


def _is_constant(value: ir.Value | None) -> bool:
    return value is not None and constant_tensor(value) is not None
