"""Count the least work of a model at given sizes: operations of its matrix products, and bytes moved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.core.node_graphs import graphs_of
from ffn_export.core.words import words
from ffn_export.fusion import constants
from ffn_export.fusion.functions import inline
from ffn_export.fusion.pipeline import sorted_copy
from ffn_export.fusion.views import input_at, int_of, is_standard, producer
from ffn_export.latency.concrete import at_sizes, bytes_of, shape_of, worked_out
from ffn_export.latency.result import Work

_DOMAINS = ("", "com.microsoft")


def work(model: ir.Model, sizes: Mapping[str, int]) -> Work | None:
    """Count the least work of a model at given sizes.

    A product of ``[m, k]`` and ``[k, n]`` counts as ``2 m k n`` operations, times the trip count of its loop. Other
    operators count as none: they take a fraction of the time of a product. Weights are read once, inputs are read once,
    and outputs are written once. Of a table, only the rows that are looked up are read.

    Args:
        model: The model; it is left unchanged.
        sizes: Size of each symbolic dimension.

    Returns:
        The counts. None if

        1. a shape is unknown,
        2. a branch or the trip count of a loop depends on more than sizes,
        3. products are in a ``Scan`` or within operators such as ``Attention``, or
        4. the graph cannot be sorted topologically.
    """
    ordered = sorted_copy(model)
    if ordered is None:
        return None
    concrete = at_sizes(inline.inlined(inline.written_out(ordered)), sizes)
    is_plain = not any(_computes_inside(node, concrete) for node in concrete.graph)
    operations = _operations((concrete if is_plain else worked_out(concrete)).graph, concrete)
    interface = [value for value in (*concrete.graph.inputs, *concrete.graph.outputs) if not value.is_initializer()]
    moved = [bytes_of(value) for value in interface]
    if operations is None or None in moved:
        return None
    weights = sum(map(_bytes_read, _weights(concrete)))
    return Work(operations, weights + sum(filter(None, moved)))


def _weights(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the initializers and ``Constant`` nodes of a graph and its subgraphs."""
    for graph in (model.graph, *model.graph.subgraphs()):
        yield from graph.initializers.values()
        yield from (node.outputs[0] for node in graph if is_standard(node, "Constant"))


def _bytes_read(weight: ir.Value) -> int:
    """Return the bytes of a weight that are read: all of it, or the rows that ``Gather`` looks up in a table."""
    tensor, uses = constant_tensor(weight), weight.uses()
    if tensor is None:
        return 0
    if not uses or any(use.node.op_type != "Gather" or use.idx for use in uses):
        return tensor.nbytes
    looked_up = [shape_of(use.node.outputs[0]) for use in uses]
    elements = sum(tensor.size if shape is None else math.prod(shape) for shape in looked_up)
    return min(tensor.nbytes, math.ceil(elements * tensor.dtype.itemsize))


def _operations(graph: ir.Graph, model: ir.Model) -> int | None:
    """Count the products of a graph, its subgraphs and functions; None if one cannot be counted."""
    total = 0
    for node in graph:
        if _is_product(node):
            if all(constants.is_fixed(value) for value in node.inputs if value is not None):
                continue  # a runtime computes it once, when it loads the model
            count = _OPERATIONS[node.op_type](node)
        elif _is_other_product(node):
            count = None
        elif _computes_inside(node, model):
            count = _of_loop(node, model)
        else:
            continue
        if count is None:
            return None
        total += count
    return total


def _is_product(node: ir.Node) -> bool:
    return node.domain in _DOMAINS and node.op_type in _OPERATIONS


def _is_other_product(node: ir.Node) -> bool:
    return node.domain in _DOMAINS and node.op_type in _NOT_COUNTED


def _computes_inside(node: ir.Node, model: ir.Model) -> bool:
    """Whether a product is in a subgraph of a node or in a function that it calls, at any depth."""
    seen: set[ir.OperatorIdentifier] = set()
    pending = [node]
    while pending:
        each = pending.pop()
        if each is not node and (_is_product(each) or _is_other_product(each)):
            return True
        pending += (inner for graph in graphs_of(each) for inner in graph)
        called = each.op_identifier()
        if called in model.functions and called not in seen:
            seen.add(called)
            pending += model.functions[called]
    return False


def _of_loop(node: ir.Node, model: ir.Model) -> int | None:
    """Count the products of a ``Loop`` with a known trip count; None for any other node."""
    times = _times(node) if is_standard(node, "Loop") else None
    once = _operations(node.attributes["body"].as_graph(), model) if times else 0
    return None if times is None or once is None else times * once


def _times(loop: ir.Node) -> int | None:
    """Return the trip count of a loop, or None if it is unknown or the loop may stop earlier."""
    count, begins = constants.integers(input_at(loop, 0)), _truth(input_at(loop, 1))
    if (count is not None and max(count, default=0) <= 0) or begins is False:
        return 0
    body = loop.attributes["body"].as_graph()
    goes_on: ir.Value | None = body.outputs[0]
    while (same := producer(goes_on, "Identity")) is not None:
        goes_on = same.inputs[0]
    never_stops = goes_on is body.inputs[1] or _truth(goes_on)
    return count[0] if count is not None and len(count) == 1 and begins and never_stops else None


def _truth(condition: ir.Value | None) -> bool | None:
    """Return the value of a condition, or None if it is unknown; an omitted condition is true."""
    known = np.asarray(True) if condition is None else constants.evaluate(condition)
    return None if known is None else bool(known.all())


def _of_product(node: ir.Node) -> int | None:
    a, b = shape_of(input_at(node, 0)), shape_of(input_at(node, 1))
    if not a or not b:
        return None
    if int_of(node, "transA", 0) and len(a) > 1:
        a = [*a[:-2], a[-1], a[-2]]
    if int_of(node, "transB", 0) and len(b) > 1:
        b = [*b[:-2], b[-1], b[-2]]
    rows, columns = (a[-2] if len(a) > 1 else 1), (b[-1] if len(b) > 1 else 1)
    batch = math.prod(np.broadcast_shapes(tuple(a[:-2]), tuple(b[:-2])))
    return 2 * batch * rows * columns * a[-1]


def _of_quantized(node: ir.Node) -> int | None:
    a = shape_of(input_at(node, 0))
    columns = int_of(node, "N", 0)
    return 2 * math.prod(a) * columns if a and columns else None


def _of_convolution(node: ir.Node) -> int | None:
    kernel, y = shape_of(input_at(node, 1)), shape_of(node.outputs[0])
    return None if kernel is None or y is None else 2 * math.prod(y) * math.prod(kernel[1:])


_OPERATIONS = {
    **dict.fromkeys(
        ("MatMul", "MatMulInteger", "MatMulIntegerToFloat", "FusedMatMul", "Gemm", "FusedGemm"), _of_product
    ),
    "MatMulNBits": _of_quantized,
    "Conv": _of_convolution,
}
# Operators with products that are not counted here. The work of a model with one of them is unknown.
_NOT_COUNTED = words(
    "Attention ConvInteger ConvTranspose DynamicQuantizeLSTM DynamicQuantizeMatMul Einsum GRU GroupQueryAttention LSTM "
    "MatMulBnb4 MoE MultiHeadAttention PackedAttention PackedMultiHeadAttention QAttention QGemm "
    "QLinearConv QLinearMatMul QMoE RNN SparseAttention TransposeMatMul FusedConv NhwcConv"
)
