"""Remove what nothing reads."""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion.views import is_read, values_of

# Key of onnx-ir for a value's quantisation annotation: the names of initializers, which nodes need not read.
_ANNOTATION = "quant_parameter_tensor_names"


def remove_unused(model: ir.Model) -> None:
    """Remove nodes and initializers that nothing reads. Keep nodes without outputs, which onnx-ir's pass removes."""
    values = (value for graph in model.graphs() for value in values_of(graph))
    annotating = {name for value in values for name in value.meta.get(_ANNOTATION, {}).values()}
    for graph in reversed(tuple(model.graphs())):  # a subgraph before the graph that it reads from
        for node in reversed(graph):
            if node.outputs and not any(map(is_read, node.outputs)):
                graph.remove(node, safe=True)
        for name, value in list(graph.initializers.items()):
            if not is_read(value) and not value.is_graph_input() and name not in annotating:
                del graph.initializers[name]
