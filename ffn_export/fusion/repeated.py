"""Merge products that a graph computes more than once: of one value, with the same weights and bias.

A module that calls a layer for each term of a formula, as ``0.5 * up(x) * (1 + erf(up(x) / sqrt(2)))``, is traced with
a product for each call. Rules recognise an activation by the one value that it reads.

Merged are products whose readers meet before the next product, as the terms of one formula do. Two feed-forwards with
the same first layer keep a product each, since one node computes each of them. Not merged either: a result that is an
output of its graph, which it gives the name; weights of equal numbers that are two initializers; products of two
computed values.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.region import ELEMENTWISE, LARGEST, LAYOUT
from ffn_export.fusion.rule import standard
from ffn_export.fusion.views import is_standard, producer

_BETWEEN = ELEMENTWISE | standard(*LAYOUT)


def merge(model: ir.Model) -> None:
    """Merge the repeated products of every graph of the model, in place, with the sums of their biases."""
    for graph in tuple(model.graphs()):
        seen: dict[tuple[Any, ...], list[ir.Node]] = {}
        for node in graph:
            if not _is_product_or_bias(node) or node.outputs[0].is_graph_output():
                continue
            firsts, readers = seen.setdefault(_computation(node), []), _readers(node)
            first = next((each for each in firsts if not readers.isdisjoint(_readers(each))), None)
            if first is None:
                firsts.append(node)
                continue
            ir.convenience.replace_all_uses_with(node.outputs[0], first.outputs[0])
            graph.remove(node, safe=True)


def _is_product_or_bias(node: ir.Node) -> bool:
    """Whether a node multiplies a value by a weight, or adds a bias to such a product."""
    if not any(map(constants.is_fixed, node.inputs)):
        return False
    made = (producer(value) for value in node.inputs)
    is_bias = is_standard(node, "Add") and any(each is not None and is_standard(each, "MatMul") for each in made)
    return is_bias or is_standard(node, "MatMul", "Gemm")


def _computation(node: ir.Node) -> tuple[Any, ...]:
    attributes = sorted((name, str(each.value)) for name, each in node.attributes.items())
    return (node.op_type, *node.inputs, *attributes)


def _readers(node: ir.Node) -> set[ir.Node]:
    """Return the element-wise nodes that a result reaches through others, as many as an activation may have."""
    found: set[ir.Node] = set()
    waiting = deque(node.outputs)
    while waiting and len(found) < LARGEST:
        readers = [reader for reader in waiting.popleft().consumers() if reader not in found]
        near = [reader for reader in readers if (reader.domain, reader.op_type) in _BETWEEN]
        found.update(near)
        waiting.extend(value for reader in near for value in reader.outputs)
    return found
