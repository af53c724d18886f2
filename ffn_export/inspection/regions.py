"""Where the sites of a fused graph are in the graph that it was made from.

Rules keep the names of the values that go into and come out of what they rewrite. So the nodes that a
site had before are those between the values of these names: that holds for any rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from ffn_export.fusion import constants, sites
from ffn_export.fusion.engine import scoped_name
from ffn_export.fusion.report import FusionReport

# A site has a dozen nodes; a walk that finds more has left it.
_LARGEST_SITE = 64


class Regions:
    """The graph before fusing, in which regions are looked up."""

    def __init__(self, model: ir.Model) -> None:
        nodes = list(model.graph.all_nodes())
        self._place = {node: place for place, node in enumerate(nodes)}
        self._producer_of = {str(value.name): node for node in nodes for value in node.outputs if value.name}
        self._given = {
            value.name for graph in model.graphs() for value in (*graph.inputs, *graph.initializers.values())
        }

    def has(self, value: ir.Value) -> bool:
        """Whether there was a value of this name: one that a rule made for itself has a new one."""
        return value.name in self._producer_of or value.name in self._given

    def grown(self, site: Sequence[ir.Node]) -> list[ir.Node]:
        """Return a site of the fused graph with the nodes around it that a rule wrote, up to values that were there.

        Args:
            site: Its nodes; the last one ends it. What turns its input to rows, and its result back, is not among them.

        Returns:
            What stands before it, the site, what stands behind it.
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
        """Return the nodes that a site of the fused graph had before, in graph order and without constants.

        Args:
            site: Its nodes in the fused graph; the last one ends it.

        Returns:
            None of them where the site had other borders.
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
    """Return the identifier of each site of a report, and its nodes in the fused graph; none of a refusal's."""
    nodes_of: dict[tuple[str, str], list[tuple[ir.Node, ...]]] = defaultdict(list)
    for found in sites.find(fused):
        nodes_of[found.kind, scoped_name(found.nodes[-1])].append(found.nodes)
    same = ((site, nodes_of[site.kind, site.name]) for site in report.sites)
    return {site.id: nodes.pop(0) if nodes else () for site, nodes in same}


def weights(nodes: Iterable[ir.Node]) -> list[ir.Value]:
    """Return the initialisers that nodes read, each once."""
    return list(dict.fromkeys(v for node in nodes for v in node.inputs if v is not None and v.is_initializer()))


def _comes_from_outside(value: ir.Value, site: Sequence[ir.Node]) -> bool:
    return value.producer() not in site and not constants.is_constant(value)
