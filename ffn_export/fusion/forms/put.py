"""Put what a form has written in the place of the nodes that computed it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir as ir

from ffn_export.core.node_graphs import graphs_of
from ffn_export.fusion.builder import Builder, Names
from ffn_export.fusion.provenance import note, rules_of


def put(
    op: Builder, result: ir.Value, last: ir.Node, replaced: Iterable[ir.Node], end: ir.Value, form: str, names: Names
) -> ir.Value:
    """Replace nodes by written ones, under names that are new in the whole model, and return the result.

    Args:
        op: Builder of the written nodes.
        result: Value that takes the place of ``end``.
        last: The replaced node whose place and metadata the written nodes take.
        replaced: The replaced nodes.
        end: Value that they computed.
        form: Name of the form, which is noted on the written nodes.
        names: Names in use.
    """
    graph = last.graph
    assert isinstance(graph, ir.Graph)
    for value in op.constants:
        value.name = names.value(f"{end.name}_constant")
        graph.register_initializer(value)
    result.metadata_props.update(end.metadata_props)
    result.doc_string = end.doc_string
    nodes = list(_with_bodies(op.nodes))
    for node in nodes:
        made_by = rules_of(node)
        node.metadata_props.update({k: v for k, v in last.metadata_props.items() if k not in node.metadata_props})
        note(node, [*made_by, form])
        node.name = names.node(f"{last.name or form}_{node.op_type}")
        for value in node.outputs:
            if value is not result:
                value.name = names.value(f"{end.name}_{node.op_type}")
    for body in (body for node in nodes for body in graphs_of(node)):
        for value in body.inputs:
            value.name = names.value(f"{end.name}_{value.name}")
    ir.convenience.replace_nodes_and_values(graph, last, list(replaced), op.nodes, [end], [result])
    return result


def _with_bodies(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    for node in nodes:
        for body in graphs_of(node):
            yield from _with_bodies(body)
        yield node
