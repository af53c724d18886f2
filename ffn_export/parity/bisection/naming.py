"""Choose the node that names a part, and describe nodes for reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import onnx_ir as ir

from ffn_export.fusion.engine import scope_of
from ffn_export.inspection.facts import operator_name
from ffn_export.parity.bisection.graph import Region
from ffn_export.parity.bisection.result import NodeFacts


def named(region: Region, instead_of: Region) -> ir.Node:
    """Return the node that names a part.

    If the part has all operators of the reference and one or more besides, it is the first extra node. Otherwise it is
    the node that computes the value.
    """
    extra = surplus(region.nodes, instead_of.nodes)
    return extra[0] if extra and not surplus(instead_of.nodes, region.nodes) else region.nodes[-1]


def surplus(nodes: Sequence[ir.Node], others: Sequence[ir.Node]) -> list[ir.Node]:
    """Return the nodes left after matching operators with the others. Nodes whose name is in both match first."""
    left = Counter(map(operator_name, others))
    names = {node.name for node in others if node.name}
    found = []
    for node in sorted(nodes, key=lambda node: node.name not in names):
        if left[operator_name(node)] > 0:
            left[operator_name(node)] -= 1
        else:
            found.append(node)
    return [node for node in nodes if node in found]


def facts(node: ir.Node, alike: Sequence[ir.Node] = ()) -> NodeFacts:
    """Return the facts of a node for reports, with the scope from the reference's nodes if the node has none."""
    scope = scope_of(node) or next((found for other in reversed(alike) if (found := scope_of(other))), "")
    return NodeFacts(
        node.name or "",
        operator_name(node),
        scope,
        tuple("" if value is None else str(value.name) for value in node.inputs),
        tuple(str(value.name) for value in node.outputs),
    )
