"""The precision that an output is computed in, if a graph casts at its border, such as float16 between float32 inputs.

A cast to float32 at the end does not undo the rounding to float16. ONNX Runtime's CPU execution provider has few
float16 kernels and removes casts between nodes, so it may be as exact as float32 on one graph and not on another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from ffn_export.core.node_graphs import graphs_of

_HALVES = {ir.DataType.BFLOAT16: "bfloat16", ir.DataType.FLOAT16: "float16"}  # the coarsest first


def inner_precisions(model: ir.Model) -> Mapping[str, str]:
    """Return output name -> coarsest half-precision dtype on the paths from the inputs to that output.

    Weights that are only stored in half precision do not count. Requires topologically sorted nodes.
    """
    on_the_way = {value: {value.dtype} & _HALVES.keys() for value in model.graph.inputs}
    for node in model.graph:
        inside = list(_with_bodies(node))
        before = [on_the_way[value] for each in inside for value in each.inputs if value in on_the_way]
        if before:
            casts = {ir.DataType(each.attributes.get_int("to", 0)) for each in inside if each.op_type == "Cast"}
            on_the_way.update(dict.fromkeys(node.outputs, set().union(*before, casts & _HALVES.keys())))
    met = {str(output.name): on_the_way.get(output, set()) for output in model.graph.outputs}
    return {name: next(_HALVES[half] for half in _HALVES if half in halves) for name, halves in met.items() if halves}


def _with_bodies(node: ir.Node) -> Iterator[ir.Node]:
    """Yield a node and, of a Loop or If, the nodes of its bodies."""
    yield node
    for graph in graphs_of(node):
        yield from ir.traversal.RecursiveGraphIterator(graph)
