"""Tap and cut graphs: add outputs, or replace computed values by inputs.

At a cut, the computed value becomes an output under another name, and its consumers read a new input. Each part then
shows only its own error: it inherits none from earlier parts, and later parts cannot hide it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

SUFFIX = "__computed"


def computed(graph: ir.Graph) -> Iterable[ir.Value]:
    """Yield the named values that the nodes of a graph compute, without those of subgraphs."""
    return (value for node in graph for value in node.outputs if value.name)


def observed(model: ir.Model, names: Collection[str]) -> ir.Model:
    """Return a copy with additional values as outputs."""
    copied = model.clone()
    known = {value.name for value in copied.graph.outputs}
    wanted = set(names) - known
    copied.graph.outputs.extend(value for value in computed(copied.graph) if value.name in wanted)
    return copied


def cut(model: ir.Model, types: Mapping[str, ir.DataType]) -> tuple[ir.Model, tuple[str, ...]]:
    """Return a copy that is cut at values, and the names of the cut values.

    ``types`` has the dtype of the new input for each name. Values that the graph does not compute are ignored.
    """
    names = []
    copied = model.clone()
    outputs = list(copied.graph.outputs)
    copied.graph.outputs.clear()
    for value in [v for v in computed(copied.graph) if v.name in types]:
        name = str(value.name)
        names.append(name)
        given = ir.val(name, types[name], value.shape)
        ir.convenience.replace_all_uses_with(value, given)
        value.name = f"{name}{SUFFIX}"
        copied.graph.inputs.append(given)
        if value not in outputs:
            outputs.append(value)
    copied.graph.outputs.extend(outputs)
    return copied, tuple(names)


def part(
    model: ir.Model, given: Mapping[str, tuple[ir.DataType, tuple[int, ...]]], wanted: Collection[str]
) -> ir.Model:
    """Return a copy with only the nodes that compute some values from others.

    Args:
        model: The model.
        given: Name of a value -> dtype and shape of the input that replaces it. Inputs of the model may be among them;
            inputs that no wanted value depends on are removed.
        wanted: Names of the values to compute. Each is an output, with :data:`SUFFIX` in its name if it is given too.
    """
    copied, names = cut(model, {name: dtype for name, (dtype, _) in given.items()})
    outputs = {f"{name}{SUFFIX}" if name in names else name for name in wanted}
    copied.graph.outputs.clear()
    copied.graph.outputs.extend(value for value in computed(copied.graph) if value.name in outputs)
    RemoveUnusedNodesPass()(copied)
    for value in list(copied.graph.inputs):
        if not value.uses() and not value.is_graph_output():
            copied.graph.inputs.remove(value)
        elif value.name in given:
            value.shape = ir.Shape(given[str(value.name)][1])
    for value in computed(copied.graph):  # a wrong shape in the graph must not count as an error of this part
        value.shape = None
    return copied
