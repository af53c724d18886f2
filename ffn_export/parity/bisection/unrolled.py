"""Write a graph out for one set of inputs: the branch that each ``If`` takes, and every iteration of a ``Loop``.

A bisection compares the values of the main graph. The nodes of a branch or a body are then among its nodes, and the
one that is wrong can be named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import NameFixPass

from ffn_export.core.tapped_graphs import observed
from ffn_export.core.types import Array
from ffn_export.fusion import constants
from ffn_export.fusion.views import input_at, is_standard
from ffn_export.fusion_check.running import RefusedError

_DEEPEST = 4  # levels of nested graphs
_MOST_ITERATIONS = 16

Run = Callable[[ir.Model], Mapping[str, Array]]


def unrolled(model: ir.Model, feeds: Mapping[str, Array], run: Run) -> ir.Model:
    """Return a copy without branches and short loops, or the model itself if it has none or does not run.

    Args:
        model: A model with functions written out.
        feeds: Inputs by the model's names.
        run: Runs a model on the inputs and returns its outputs.
    """
    result = model
    for _ in range(_DEEPEST):
        nested = {place: n for place, n in enumerate(result.graph) if is_standard(n, "If") or _counts(n)}
        if not nested:
            break
        deciding = [value for node in nested.values() if (value := node.inputs[0]) is not None]
        names = {str(value.name) for value in deciding if value.producer() is not None}
        try:
            known = {**feeds, **run(observed(result, names))}
        except RefusedError:
            break
        known |= {str(v.name): array for v in deciding if (array := constants.evaluate(v)) is not None}
        copied = result.clone()
        written = [_write_out(copied.graph, n, known) for place, n in enumerate(list(copied.graph)) if place in nested]
        if not any(written):
            break
        NameFixPass()(copied)  # the iterations of a loop share the names of its body
        result = copied
    return result


def _counts(node: ir.Node) -> bool:
    """Whether a loop runs for a number of iterations, and no condition ends it earlier."""
    if not is_standard(node, "Loop") or node.inputs[0] is None or len(node.outputs) == 0:
        return False
    start, body = input_at(node, 1), node.attributes["body"].as_graph()
    goes_on: ir.Value | None = body.outputs[0]
    while goes_on is not None and (producer := goes_on.producer()) is not None and is_standard(producer, "Identity"):
        goes_on = producer.inputs[0]
    return (goes_on is body.inputs[1] or _is_true(goes_on)) and (start is None or _is_true(start))


def _is_true(value: ir.Value | None) -> bool:
    array = constants.evaluate(value)
    return array is not None and bool(array.all())


def _write_out(graph: ir.Graph, node: ir.Node, known: Mapping[str, Array]) -> bool:
    """Replace a node by the nodes that it runs, if these are known, and return whether they are."""
    decided = None if node.inputs[0] is None else known.get(str(node.inputs[0].name))
    if decided is None or decided.size != 1:
        return False
    number = int(decided.reshape(-1)[0])
    if node.op_type == "If":
        branch = node.attributes["then_branch" if number else "else_branch"].as_graph()
        nodes, results = _copied(branch, graph, {})
    elif 0 < number <= _MOST_ITERATIONS:
        nodes, results = _iterations(node, number, graph)
    else:
        return False
    ends = [ir.node("Identity", [value], name=node.name) for value in results]
    for output, end in zip(node.outputs, ends, strict=True):
        new = end.outputs[0]
        new.name, new.type, new.shape = output.name, output.type, output.shape
    nodes += ends
    ir.convenience.replace_nodes_and_values(graph, node, [node], nodes, node.outputs, [e.outputs[0] for e in ends])
    return True


def _iterations(loop: ir.Node, count: int, graph: ir.Graph) -> tuple[list[ir.Node], list[ir.Value]]:
    body = loop.attributes["body"].as_graph()
    states: Sequence[ir.Value | None] = loop.inputs[2:]
    nodes: list[ir.Node] = []
    scanned: list[list[ir.Value]] = []
    for number in range(count):
        given = [_number(graph, loop, np.array(number)), _number(graph, loop, np.array(True)), *states]
        written, results = _copied(body, graph, dict(zip(body.inputs, given, strict=True)))
        nodes += written
        states = results[1 : 1 + len(states)]
        scanned.append(results[1 + len(states) :])
    ends = list(filter(None, states))
    for parts in zip(*scanned, strict=True):
        axis = _number(graph, loop, np.array([0]))
        stacked = [ir.node("Unsqueeze", [part, axis], name=loop.name) for part in parts]
        joined = ir.node("Concat", [each.outputs[0] for each in stacked], {"axis": 0}, name=loop.name)
        nodes += [*stacked, joined]
        ends.append(joined.outputs[0])
    return nodes, ends


def _number(graph: ir.Graph, loop: ir.Node, array: Array) -> ir.Value:
    value = ir.Value(name=f"{loop.name}/{len(graph.initializers)}", const_value=ir.tensor(array))
    graph.register_initializer(value)
    return value


def _copied(
    inner: ir.Graph, graph: ir.Graph, given: Mapping[ir.Value, ir.Value | None]
) -> tuple[list[ir.Node], list[ir.Value]]:
    """Return copies of the nodes of a branch or body, which read the given values, and the values of its outputs."""
    copy = inner.clone(allow_outer_scope_values=True)
    turned = dict(zip(copy.inputs, given.values(), strict=True))
    outputs = list(_read(copy.outputs, turned))
    for value, new in turned.items():
        for user, place in list(value.uses()):
            user.replace_input_with(place, new)
    nodes, initializers = list(copy), list(copy.initializers.values())
    copy.outputs.clear()
    copy.initializers.clear()
    copy.remove(nodes)
    for value in initializers:
        value.name = f"{inner.name}/{len(graph.initializers)}/{value.name}"
        graph.register_initializer(value)
    return nodes, outputs


def _read(values: Sequence[ir.Value], turned: Mapping[ir.Value, ir.Value | None]) -> Iterator[ir.Value]:
    for value in values:
        found = turned.get(value, value)
        assert found is not None, "a state of a loop has a value"
        yield found
