"""Graphs as they are tapped and cut: more outputs, or values that are given instead of computed.

Where a graph is cut, its value is an output under another name, and what follows reads the value that it is
given. So each part shows its own error alone: nothing is inherited from parts before it, carried on to those
after it, or hidden by them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

SUFFIX = "__computed"


def computed(graph: ir.Graph) -> Iterable[ir.Value]:
    """Yield the values that the nodes of a graph compute, without those of bodies."""
    return (value for node in graph for value in node.outputs if value.name)


def observed(model: ir.Model, names: Collection[str]) -> ir.Model:
    """Return a copy that gives values as outputs, beside its own."""
    copied = model.clone()
    known = {value.name for value in copied.graph.outputs}
    wanted = set(names) - known
    copied.graph.outputs.extend(value for value in computed(copied.graph) if value.name in wanted)
    return copied


def cut(model: ir.Model, types: Mapping[str, ir.DataType]) -> tuple[ir.Model, tuple[str, ...]]:
    """Return a copy that is cut at values, and at which.

    Args:
        model: The model.
        types: Name of a value -> the dtype that it is given in; it may not be there at all.
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
    """Return a copy of what computes some values from others, and of no more.

    Args:
        model: The model.
        given: Name of a value -> dtype and shape that it is given in. Inputs of the model may be among them; what
            nothing wanted depends on is left out.
        wanted: Values to compute; each is an output, named with :data:`SUFFIX` where it is given too.
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
    for value in computed(copied.graph):  # a shape that the graph states wrongly is no fault of this part
        value.shape = None
    return copied
