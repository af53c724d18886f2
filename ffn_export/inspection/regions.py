"""Find the nodes of a fused site in the graph before fusing.

Every rule keeps the names of the values that enter and leave its rewrite. So the nodes of a site before
fusing are the nodes between the values of these names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from ffn_export.fusion import constants, sites
from ffn_export.fusion.engine import scoped_name
from ffn_export.fusion.report import FusionReport

# A site has about a dozen nodes; a walk that finds more than this has left the site.
_LARGEST_SITE = 64


class Regions:
    """Looks up regions in the graph before fusing."""

    def __init__(self, model: ir.Model) -> None:
        nodes = list(model.graph.all_nodes())
        self._place = {node: place for place, node in enumerate(nodes)}
        self._producer_of = {str(value.name): node for node in nodes for value in node.outputs if value.name}
        self._given = {
            value.name for graph in model.graphs() for value in (*graph.inputs, *graph.initializers.values())
        }

    def has(self, value: ir.Value) -> bool:
        """Whether the graph before fusing had a value of this name; values that a rule adds have new names."""
        return value.name in self._producer_of or value.name in self._given

    def grown(self, site: Sequence[ir.Node]) -> list[ir.Node]:
        """Return a site of the fused graph with the surrounding nodes that a rule wrote, up to earlier values.

        Args:
            site: Nodes of the site; the last one ends it. Reshapes of its input to rows, and of its result back, are
                not among them.

        Returns:
            The nodes before the site, the site, the nodes after it.
        """
        inside = set(site)
        before: list[ir.Node] = []
        pending = list(site)
        while pending:
            made_by = [v.producer() for v in pending.pop().inputs if v is not None and not self.has(v)]
            new = dict.fromkeys(node for node in made_by if node is not None and node.op_type != "Constant")
            found = [node for node in new if node not in inside]
            inside.update(found)
            before += found
            pending += found
        behind = [site[-1]]
        while not self.has(behind[-1].outputs[0]):
            users = [node for node, _ in behind[-1].outputs[0].uses()]
            if len(users) != 1 or users[0] in inside:
                break
            behind.append(users[0])
        return [*before, *site, *behind[1:]]

    def before(self, site: Sequence[ir.Node]) -> list[ir.Node]:
        """Return the nodes of a site before fusing, in graph order and without constants.

        Args:
            site: Nodes of the site in the fused graph; the last one ends it.

        Returns:
            The nodes; empty if fusing moved the borders of the site.
        """
        site = self.grown(site)
        borders = {v.name for n in site for v in n.inputs if v is not None and _comes_from_outside(v, site)}
        last = self._producer_of.get(str(site[-1].outputs[0].name))
        found: set[ir.Node] = set()
        pending = [] if last is None else [last]
        while pending:
            node = pending.pop()
            if node in found or node.op_type == "Constant":
                continue
            found.add(node)
            for value in node.inputs:
                if value is None or value.name in borders or value.is_initializer():
                    continue
                producer = value.producer()
                if producer is None or len(found) > _LARGEST_SITE:
                    return []
                pending.append(producer)
        return sorted(found, key=self._place.__getitem__)


def nodes_of_sites(fused: ir.Model, report: FusionReport) -> dict[str, tuple[ir.Node, ...]]:
    """Return identifier of a site in the report -> its nodes in the fused graph; a refused site has none."""
    nodes_of: dict[tuple[str, str], list[tuple[ir.Node, ...]]] = defaultdict(list)
    for found in sites.find(fused):
        nodes_of[found.kind, scoped_name(found.nodes[-1])].append(found.nodes)
    same = ((site, nodes_of[site.kind, site.name]) for site in report.sites)
    return {site.id: nodes.pop(0) if nodes else () for site, nodes in same}


def weights(nodes: Iterable[ir.Node]) -> list[ir.Value]:
    """Return the initializers that nodes read, without duplicates."""
    return list(dict.fromkeys(v for node in nodes for v in node.inputs if v is not None and v.is_initializer()))


def _comes_from_outside(value: ir.Value, site: Sequence[ir.Node]) -> bool:
    return value.producer() not in site and not constants.is_constant(value)
