"""Inline functions and branches of a graph, so that the values inside them can be observed.

The result serves observation only: it computes both branches of an ``If``.
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import NameFixPass

from ffn_export.core.node_graphs import graphs_of
from ffn_export.fusion.functions import inline
from ffn_export.fusion.views import is_standard

_DEEPEST = 4  # levels of nested branches


def flat(model: ir.Model) -> ir.Model:
    """Return a copy with functions inlined and a copy of each branch in front of its ``If``."""
    result = inline.all_inlined(model.clone())
    waiting = [node for node in result.graph if is_standard(node, "If")]
    for _ in range(_DEEPEST):
        moved = [each for node in waiting for branch in graphs_of(node) for each in _copied(branch, result.graph, node)]
        waiting = [node for node in moved if is_standard(node, "If")]
    NameFixPass()(result)  # two branches may use the same name
    return result


def _copied(branch: ir.Graph, graph: ir.Graph, node: ir.Node) -> list[ir.Node]:
    """Insert a copy of a branch's nodes in front of its ``If``, and register copies of its initializers."""
    copy = branch.clone(allow_outer_scope_values=True)
    prefix = f"{node.outputs[0].name}/{branch.name}"
    initializers, nodes = list(copy.initializers.values()), list(copy)
    copy.outputs.clear()
    copy.initializers.clear()
    copy.remove(nodes)
    for value in (*initializers, *(output for each in nodes for output in each.outputs)):
        value.name = f"{prefix}/{value.name}"
    for value in initializers:
        graph.register_initializer(value)
    graph.insert_before(node, nodes)
    return nodes
