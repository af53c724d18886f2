"""Merge products that a graph computes more than once: of one value, with the same weights and bias.

A module that calls a layer for each term of a formula, as ``0.5 * up(x) * (1 + erf(up(x) / sqrt(2)))``, is traced with
a product for each call. Rules recognise an activation by the one value that it reads.

Not merged: a result that is an output of its graph, which it gives the name; weights of equal numbers that are two
initializers; products of two computed values.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.views import is_standard


def merge(model: ir.Model) -> None:
    """Merge the repeated products of every graph of the model, in place, with the sums of their biases."""
    for graph in tuple(model.graphs()):
        seen: dict[tuple[Any, ...], ir.Node] = {}
        for node in graph:
            if not is_standard(node, "MatMul", "Gemm", "Add") or not any(map(constants.is_fixed, node.inputs)):
                continue
            first = seen.setdefault(_computation(node), node)
            if first is not node and not node.outputs[0].is_graph_output():
                ir.convenience.replace_all_uses_with(node.outputs[0], first.outputs[0])
                graph.remove(node, safe=True)


def _computation(node: ir.Node) -> tuple[Any, ...]:
    attributes = sorted((name, str(each.value)) for name, each in node.attributes.items())
    return (node.op_type, *node.inputs, *attributes)
