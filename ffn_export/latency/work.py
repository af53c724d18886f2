"""How much a model has to do at given sizes: the operations of its matrix products, and the bytes that it must move."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx_ir as ir

from ffn_export.fusion.inference import fill_types
from ffn_export.fusion.pipeline import sorted_copy
from ffn_export.fusion.views import input_at, int_of
from ffn_export.latency.result import Work

_DOMAINS = ("", "com.microsoft")


def work(model: ir.Model, sizes: Mapping[str, int]) -> Work | None:
    """Count what a model cannot do without.

    A product of ``[m, k]`` and ``[k, n]`` is counted as ``2 m k n`` operations; everything else as none, since it
    takes part of the time of a product. Weights are read once, of a table the rows that are looked up; inputs are read
    and outputs written once.

    Args:
        model: The model; it is left unchanged.
        sizes: Size of each symbolic dimension.

    Returns:
        The counts; None where a shape is not known, a product is inside of a branch or a loop, or the graph has no
        order in which it runs.
    """
    ordered = sorted_copy(model)
    if ordered is None:
        return None
    model = ordered
    if any(_is_product(node) for graph in model.graph.subgraphs() for node in graph):
        return None
    shapes = _Shapes(model, sizes)
    counts = [_operations(node, shapes) for node in model.graph if _is_product(node)]
    interface = [value for value in (*model.graph.inputs, *model.graph.outputs) if not value.is_initializer()]
    moved = [shapes.bytes(value) for value in interface]
    if None in counts or None in moved:
        return None
    weights = sum(_bytes_read(value, shapes) for value in model.graph.initializers.values())
    return Work(sum(filter(None, counts)), weights + sum(filter(None, moved)))


def _bytes_read(weight: ir.Value, shapes: _Shapes) -> int:
    """Return how much of a weight is read: all of it, unless it is a table that rows are looked up in."""
    tensor, uses = weight.const_value, weight.uses()
    if tensor is None:
        return 0
    if not uses or any(use.node.op_type != "Gather" or use.idx for use in uses):
        return tensor.nbytes
    looked_up = [shapes.of(use.node.outputs[0]) for use in uses]
    elements = sum(tensor.size if shape is None else math.prod(shape) for shape in looked_up)
    return min(tensor.nbytes, math.ceil(elements * tensor.dtype.itemsize))


class _Shapes:
    """The shapes of a model's values at given sizes: as it states them, or as they follow from those of its inputs."""

    def __init__(self, model: ir.Model, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        concrete = model.clone()
        for value in concrete.graph.inputs:
            shape = self._at_sizes(value.shape)
            value.shape = value.shape if shape is None else ir.Shape(shape)
        for node in concrete.graph:
            for value in node.outputs:
                value.shape = value.shape if value.is_graph_output() else None
        fill_types(concrete)
        self._inferred = {str(value.name): value.shape for node in concrete.graph for value in node.outputs}

    def of(self, value: ir.Value | None) -> list[int] | None:
        """Return the shape of a value, or None where it is not known."""
        if value is None:
            return None
        stated = self._at_sizes(value.shape)
        return stated if stated is not None else self._at_sizes(self._inferred.get(str(value.name)))

    def bytes(self, value: ir.Value) -> int | None:
        """Return how many bytes a value takes, or None where that is not known."""
        shape = self.of(value)
        if shape is None or value.dtype is None:
            return None
        return math.ceil(math.prod(shape) * value.dtype.itemsize)

    def _at_sizes(self, shape: ir.Shape | None) -> list[int] | None:
        if shape is None:
            return None
        found = []
        for dim in shape:
            try:
                size = dim if isinstance(dim, int) else dim.evaluate(self._sizes)
            except ValueError:  # a name that is no expression, as another exporter writes
                return None
            if not isinstance(size, int):
                return None
            found.append(size)
        return found


def _is_product(node: ir.Node) -> bool:
    return node.domain in _DOMAINS and node.op_type in _OPERATIONS


def _operations(node: ir.Node, shapes: _Shapes) -> int | None:
    return _OPERATIONS[node.op_type](node, shapes)


def _of_product(node: ir.Node, shapes: _Shapes) -> int | None:
    a, b = shapes.of(input_at(node, 0)), shapes.of(input_at(node, 1))
    if not a or not b:
        return None
    if int_of(node, "transA", 0) and len(a) > 1:
        a = [*a[:-2], a[-1], a[-2]]
    if int_of(node, "transB", 0) and len(b) > 1:
        b = [*b[:-2], b[-1], b[-2]]
    rows, columns = (a[-2] if len(a) > 1 else 1), (b[-1] if len(b) > 1 else 1)
    # Of two matrices of a batch, one may be the same for all.
    batch = max(math.prod(a[:-2]), math.prod(b[:-2])) if math.prod(a[:-2]) * math.prod(b[:-2]) else 0
    return 2 * batch * rows * columns * a[-1]


def _of_quantized(node: ir.Node, shapes: _Shapes) -> int | None:
    a = shapes.of(input_at(node, 0))
    columns = int_of(node, "N", 0)
    return 2 * math.prod(a) * columns if a and columns else None


def _of_convolution(node: ir.Node, shapes: _Shapes) -> int | None:
    kernel, y = shapes.of(input_at(node, 1)), shapes.of(node.outputs[0])
    return None if kernel is None or y is None else 2 * math.prod(y) * math.prod(kernel[1:])


_OPERATIONS = {
    **dict.fromkeys(("MatMul", "MatMulInteger", "FusedMatMul", "Gemm", "FusedGemm"), _of_product),
    "MatMulNBits": _of_quantized,
    "Conv": _of_convolution,
}
