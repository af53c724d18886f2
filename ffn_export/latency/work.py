"""How much a model has to do at given sizes: the operations of its matrix products, and the bytes that it must move."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.fusion import constants, functions
from ffn_export.fusion.pipeline import sorted_copy
from ffn_export.fusion.views import input_at, int_of, is_standard, producer
from ffn_export.latency.concrete import at_sizes, bytes_of, shape_of, worked_out
from ffn_export.latency.result import Work

_DOMAINS = ("", "com.microsoft")


def work(model: ir.Model, sizes: Mapping[str, int]) -> Work | None:
    """Count what a model cannot do without.

    A product of ``[m, k]`` and ``[k, n]`` is counted as ``2 m k n`` operations, in a loop as often as that runs;
    everything else as none, since it takes part of the time of a product. Weights are read once, of a table the rows
    that are looked up; inputs are read and outputs written once.

    Args:
        model: The model; it is left unchanged.
        sizes: Size of each symbolic dimension.

    Returns:
        The counts; None where a shape is not known, where it depends on more than sizes which branch is taken or how
        often a loop runs, where products are in a ``Scan`` or within operators such as ``Attention``, or where the
        graph has no order in which it runs.
    """
    ordered = sorted_copy(model)
    if ordered is None:
        return None
    concrete = at_sizes(functions.inlined(functions.written_out(ordered)), sizes)
    is_plain = not any(_computes_inside(node, concrete) for node in concrete.graph)
    operations = _operations((concrete if is_plain else worked_out(concrete)).graph, concrete)
    interface = [value for value in (*concrete.graph.inputs, *concrete.graph.outputs) if not value.is_initializer()]
    moved = [bytes_of(value) for value in interface]
    if operations is None or None in moved:
        return None
    weights = sum(map(_bytes_read, _weights(concrete)))
    return Work(operations, weights + sum(filter(None, moved)))


def _weights(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the constants of a graph and its subgraphs, be they initialisers or nodes."""
    for graph in (model.graph, *model.graph.subgraphs()):
        yield from graph.initializers.values()
        yield from (node.outputs[0] for node in graph if is_standard(node, "Constant"))


def _bytes_read(weight: ir.Value) -> int:
    """Return how much of a weight is read: all of it, unless it is a table that rows are looked up in."""
    tensor, uses = constant_tensor(weight), weight.uses()
    if tensor is None:
        return 0
    if not uses or any(use.node.op_type != "Gather" or use.idx for use in uses):
        return tensor.nbytes
    looked_up = [shape_of(use.node.outputs[0]) for use in uses]
    elements = sum(tensor.size if shape is None else math.prod(shape) for shape in looked_up)
    return min(tensor.nbytes, math.ceil(elements * tensor.dtype.itemsize))


def _operations(graph: ir.Graph, model: ir.Model) -> int | None:
    """Count a graph's products, those of its subgraphs and functions too; None where one cannot be told."""
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


def _computes_inside(node: ir.Node, model: ir.Model, seen: frozenset[ir.OperatorIdentifier] = frozenset()) -> bool:
    """Whether a product is in a body of a node or in a function that it calls, however deep."""
    inside = [n for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH for n in a.as_graph().all_nodes()]
    called = node.op_identifier()
    if called in model.functions and called not in seen:
        inside += model.functions[called].all_nodes()
    return any(
        _is_product(each) or _is_other_product(each) or _computes_inside(each, model, seen | {called})
        for each in inside
    )


def _of_loop(node: ir.Node, model: ir.Model) -> int | None:
    """Count a ``Loop`` that runs a known number of times; of any other node it is not known what it runs."""
    times = _times(node) if is_standard(node, "Loop") else None
    once = _operations(node.attributes["body"].as_graph(), model) if times else 0
    return None if times is None or once is None else times * once


def _times(loop: ir.Node) -> int | None:
    """Return how often a loop runs, or None where its count is not known or it may stop before."""
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
    """Return what a condition is, or None where it is not known; one that is left out is true."""
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
    **dict.fromkeys(("MatMul", "MatMulInteger", "FusedMatMul", "Gemm", "FusedGemm"), _of_product),
    "MatMulNBits": _of_quantized,
    "Conv": _of_convolution,
}
# Products too, in forms that nobody counts here: a model with one of them does more than can be told.
_NOT_COUNTED = frozenset({
    "Attention", "ConvInteger", "ConvTranspose", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "Einsum", "GRU",
    "GroupQueryAttention", "LSTM", "MatMulBnb4", "MatMulIntegerToFloat", "MoE", "MultiHeadAttention", "PackedAttention",
    "PackedMultiHeadAttention", "QAttention", "QGemm", "QLinearConv", "QLinearMatMul", "QMoE", "RNN",
    "SparseAttention", "TransposeMatMul", "FusedConv", "NhwcConv",
})  # fmt: skip
