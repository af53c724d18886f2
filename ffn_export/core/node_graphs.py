"""The graphs that a node holds: branches of ``If``, bodies of ``Loop`` and ``Scan``."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir


def graphs_of(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the graphs among the attributes of a node, without those inside of them."""
    for attribute in node.attributes.values():
        if attribute.is_ref():  # a parameter of a function, whose graph the call gives
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def depth_of(graph: ir.Graph) -> int:
    """Return how deep graphs are nested in a graph; 0 if none of its nodes holds one."""
    depth, level = -1, [graph]
    while level:
        depth += 1
        level = [inner for each in level for node in each for inner in graphs_of(node)]
    return depth
