"""The nodes that runtimes compute, wherever a model keeps them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ffn_export.fusion.functions import inline


def computed_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """Yield the nodes of a graph and its subgraphs, and those of functions that they call.

    A call is among them as well: native kernels compute a node of ``ai.ffn_export`` by its attributes, and other
    runtimes by its body. The body of a runtime's operator is left out, and that of a function that cannot be inlined.
    """
    computed = inline.computed(model)
    if computed is not model:
        yield from (node for node in model.graph.all_nodes() if node.op_identifier() in model.functions)
    yield from computed.graph.all_nodes()
