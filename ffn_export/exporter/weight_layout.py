"""Fold nodes that only change the layout of a weight: ``Squeeze``, ``Transpose`` and ``Identity``.

The exporter folds most of these nodes on initializers and leaves some. This module replaces the rest by
views, so no weight is copied before it is written.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.core.contiguous import contiguous
from ffn_export.core.types import Array

_LAYOUT = frozenset({"Squeeze", "Transpose", "Identity"})


class _TurnedWeight(ir.Tensor[Array]):
    """A view of a weight that is copied only while it is written: NumPy writes a view one number at a time."""

    def tobytes(self) -> bytes:
        """Return the bytes of the view."""
        return self._straight().tobytes()

    def tofile(self, file: Any) -> None:
        """Write the bytes of the view to a binary file."""
        self._straight().tofile(file)

    def _straight(self) -> ir.Tensor[Array]:
        return ir.Tensor(contiguous(self.numpy()), self.dtype)


def fold(model: ir.Model) -> int:
    """Fold layout nodes on initializers of the main graph in place, and return the number of removed nodes.

    Two kinds of nodes are kept:

    1. A node on a weight that is also used in another layout, such as an embedding tied to an output layer:
       folding it would store the weight twice.
    2. A node on a weight in external data, which need not be read.
    """
    graph = model.graph
    folded = 0
    for node in graph:
        source = node.inputs[0] if _is_layout(node) else None
        if source is None or not _is_fixed_initializer(source):
            continue
        nodes = [node] if node.op_type == "Identity" else [usage.node for usage in source.uses()]
        views = [_view(user, source) if _is_layout(user) and user.graph is graph else None for user in nodes]
        first = views[0]
        if first is None or not all(_is_same(first, view) for view in views):
            continue
        weight = source if node.op_type == "Identity" else _initializer(graph, node.outputs[0], first)
        for user in nodes:
            ir.convenience.replace_all_uses_with(user.outputs[0], weight)
            graph.remove(user, safe=True)
        if not source.uses() and weight is not source:
            del graph.initializers[str(source.name)]
        folded += len(nodes)
    return folded


def _is_layout(node: ir.Node) -> bool:
    known = node.op_type in _LAYOUT and node.domain == "" and bool(node.inputs) and len(node.outputs) == 1
    return known and not node.outputs[0].is_graph_output()


def _is_fixed_initializer(value: ir.Value) -> bool:
    is_interface = value.is_graph_input() or value.is_graph_output()
    if not value.is_initializer() or is_interface:
        return False
    tensor = value.const_value
    if tensor is None or tensor.dtype == ir.DataType.STRING:  # text has no layout
        return False
    return not isinstance(tensor, ir.ExternalTensor)


def _is_same(one: Array, other: Array | None) -> bool:
    """Whether two views of one weight have the same shape and strides."""
    return other is not None and one.shape == other.shape and one.strides == other.strides


def _initializer(graph: ir.Graph, value: ir.Value, array: Array) -> ir.Value:
    """Register an initializer that replaces a value."""
    tensor = _TurnedWeight(array, name=value.name)
    weight = ir.Value(
        name=value.name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor
    )
    graph.register_initializer(weight)
    return weight


def _view(node: ir.Node, source: ir.Value) -> Array | None:
    """Return the node's output as a view of the weight, or None if it is no view or the node is invalid."""
    assert source.const_value is not None
    try:
        array = source.const_value.numpy()
        if node.op_type == "Transpose":
            return array.transpose(node.attributes.get_ints("perm", range(array.ndim)[::-1]))
        if node.op_type == "Squeeze":
            return _squeezed(node, array)
    except (ValueError, OSError):  # an axis or a file does not exist
        return None
    return array


def _squeezed(node: ir.Node, array: Array) -> Array | None:
    """Squeeze the axes of the attribute (before opset 13) or the second input, else all axes of size 1."""
    if "axes" in node.attributes:
        return array.squeeze(tuple(node.attributes.get_ints("axes", ())))
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    if axes is None:
        return array.squeeze()
    tensor = None if axes.is_graph_input() else constant_tensor(axes)
    return None if tensor is None else array.squeeze(tuple(int(axis) for axis in tensor.numpy().reshape(-1)))
