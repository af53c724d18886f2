"""Rename values of subgraphs that hide a value of an outer graph.

Nodes read values by name. If a rule lets an inner node read an outer value, an inner value of the same name would be
read instead. Renaming inner values is safe: inputs and outputs of a body are known by position.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion.builder import Names
from ffn_export.fusion.views import values_of


def rename_shadowing(model: ir.Model) -> None:
    """Rename, in place, every value of a subgraph that hides one of an outer graph."""
    names: Names | None = None
    for outer in model.graphs():  # a body may hold bodies, too
        own = {value.name for value in values_of(outer) if value.name}
        for graph in outer.subgraphs():
            for value in values_of(graph):
                if value.name in own:
                    names = names or Names(model)
                    value.name = names.value(str(value.name))
