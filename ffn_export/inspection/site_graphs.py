"""Make the graphs of :mod:`site_graph` from a model before and after fusing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.fusion import constants
from ffn_export.fusion.report import FusionReport
from ffn_export.fusion.views import input_at, producer
from ffn_export.inspection import facts
from ffn_export.inspection.regions import Regions, nodes_of_sites
from ffn_export.inspection.site_graph import OperatorGraph, Place, SiteGraph

_SHOWN = frozenset({ir.AttributeType.INT, ir.AttributeType.FLOAT, ir.AttributeType.STRING, ir.AttributeType.INTS})
_LONGEST_ATTRIBUTE = 24  # characters
_MOST_SIZES = 6
_LONGEST_PATH = 4  # nodes that only move data between two that compute


def site_graphs(model: ir.Model, fused: ir.Model, report: FusionReport) -> tuple[SiteGraph, ...]:
    """Return the sites in the order of the report; sites with equal graphs are grouped.

    Refused sites, sites whose borders moved, and sites that are now inside a function, are omitted: they have no
    counterpart.
    """
    regions, place = Regions(model), {node: place for place, node in enumerate(fused.graph.all_nodes())}
    alike: dict[tuple[OperatorGraph, OperatorGraph], list[str]] = {}
    for identifier, found in nodes_of_sites(fused, report).items():
        nodes = sorted((node for node in _whole(found, regions) if node in place), key=place.__getitem__)
        earlier = regions.before(nodes) if nodes else []
        if not earlier:
            continue
        alike.setdefault((_graph(earlier), _graph(nodes)), []).append(identifier)
    return tuple(SiteGraph(tuple(identifiers), *graphs) for graphs, identifiers in alike.items())


def _whole(nodes: Sequence[ir.Node], regions: Regions) -> set[ir.Node]:
    """Return a site's nodes, the nodes between them, and the surrounding nodes that a rule wrote.

    A site lists only the nodes that compute. Its drawing also shows nodes that move data or compute sizes.
    """
    whole = dict.fromkeys(nodes)
    for value in (value for node in nodes for value in node.inputs):
        path: list[ir.Node] = []
        node = producer(value)
        while node is not None and node not in whole and len(path) < _LONGEST_PATH:
            path.append(node)
            node = producer(input_at(node, 0))
        if node in whole:
            whole = dict.fromkeys([*path, *whole])
    return set(regions.grown(list(whole))) if whole else set()


def _graph(nodes: Sequence[ir.Node]) -> OperatorGraph:
    """Return the graph of nodes that are in topological order."""
    data = dict.fromkeys(v for node in nodes for v in node.inputs if v is not None and not constants.is_constant(v))
    made = dict.fromkeys(value for node in nodes for value in node.outputs)
    incoming = [value for value in data if value not in made]
    outgoing = [v for v in made if any(user not in nodes for user, _ in v.uses()) or v.is_graph_output()]
    places: list[Place] = [
        Place("input", f"input {i + 1}" if len(incoming) > 1 else "input") for i in range(len(incoming))
    ]
    at: dict[ir.Value, int] = {value: index for index, value in enumerate(incoming)}
    edges: dict[tuple[int, int], None] = {}
    for node in nodes:
        here = len(places)
        places.append(Place("operator", facts.operator_name(node), tuple(_details(node))))
        edges |= dict.fromkeys((at[v], here) for v in node.inputs if v is not None and v in at)
        at |= dict.fromkeys(node.outputs, here)
    for index, value in enumerate(outgoing):
        edges[at[value], len(places)] = None
        places.append(Place("output", f"output {index + 1}" if len(outgoing) > 1 else "output"))
    return OperatorGraph(tuple(places), tuple(edges))


def _details(node: ir.Node) -> Iterator[str]:
    for value in node.inputs:
        if value is not None and constants.is_constant(value):
            yield _constant(value)
    for name, attribute in sorted(node.attributes.items()):
        if attribute.type in _SHOWN and len(text := _attribute(attribute.value)) <= _LONGEST_ATTRIBUTE:
            yield f"{name} {text}"


def _attribute(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _constant(value: ir.Value) -> str:
    """Describe a constant: a number or a short list of integers by value, another tensor by its shape."""
    tensor = constant_tensor(value)
    if tensor is None:
        return "constant"
    if tensor.size == 1 and tensor.dtype != ir.DataType.STRING:
        return f"{float(tensor.numpy().reshape(-1)[0]):.6g}"
    if tensor.dtype.is_integer() and tensor.size <= _MOST_SIZES:
        return str(tensor.numpy().reshape(-1).tolist())
    return f"weight {list(tensor.shape.numpy())}"
