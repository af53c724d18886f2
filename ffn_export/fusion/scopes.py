"""Gives a value inside a subgraph another name where a graph around it has a value of that name.

A graph names what it reads, so a rule that lets an inner node read an outer value could reach the inner one of
that name instead. The names inside are nobody's interface: inputs and outputs of a body are known by position.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ffn_export.fusion.builder import Names


def rename_shadowing(model: ir.Model) -> None:
    """Rename, in place, every value of a subgraph that hides one of a graph around it."""
    outer = {str(value.name) for value in _own(model.graph)}
    names: Names | None = None
    for graph in model.graph.subgraphs():
        for value in _own(graph):
            if value.name in outer:
                names = names or Names(model)
                value.name = names.value(str(value.name))
    # Bodies in bodies: what hides a value of the body around it has that body's name for it.
    for graph in model.graph.subgraphs():
        own = {str(value.name) for value in _own(graph)}
        for inner in graph.subgraphs():
            for value in _own(inner):
                if value.name in own:
                    names = names or Names(model)
                    value.name = names.value(str(value.name))


def _own(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the values that a graph itself has a name for."""
    yield from tuple(dict.fromkeys((*graph.inputs, *graph.initializers.values())))
    for node in graph:
        yield from (value for value in node.outputs if value.name)
