"""Remove what nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ffn_export.fusion.views import is_read

# Key of onnx-ir for a value's quantisation annotation: the names of initializers, which nodes need not read.
_ANNOTATION = "quant_parameter_tensor_names"


def remove_unused(model: ir.Model) -> None:
    """Remove nodes and initializers that nothing reads. Keep nodes without outputs, which onnx-ir's pass removes."""
    annotating = {name for value in _values(model) for name in value.meta.get(_ANNOTATION, {}).values()}
    for graph in reversed(tuple(model.graphs())):  # a subgraph before the graph that it reads from
        for node in reversed(graph):
            if node.outputs and not any(map(is_read, node.outputs)):
                graph.remove(node, safe=True)
        for name, value in list(graph.initializers.items()):
            if not is_read(value) and not value.is_graph_input() and name not in annotating:
                del graph.initializers[name]


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from (*graph.inputs, *graph.initializers.values())
        yield from (value for node in graph for value in node.outputs)
