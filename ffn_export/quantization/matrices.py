"""Read the matrix of a product, and replace it in the graph. Large matrices stay in their file."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.core.types import Array
from ffn_export.fusion.views import is_read, is_standard

# Operators that may stand between a matrix and a product: exports of tied weights have them.
LAYOUT = ("Identity", "Transpose")


def weight_tensor(weight: ir.Value) -> ir.TensorProtocol:
    """Return the numbers of a matrix, an initializer or a ``Constant``."""
    tensor = constant_tensor(weight)
    assert tensor is not None
    return tensor


def read_matrix(weight: ir.Value, *, turned: bool) -> Array:
    """Return a matrix as ``[d_in, d_out]``. It may be a view of a mapped file."""
    array: Array = weight_tensor(weight).numpy()
    return array.T if turned else array


def close(tensor: ir.TensorProtocol) -> None:
    """Close the file of a matrix, unless a view of it still exists."""
    if isinstance(tensor, ir.ExternalTensor):
        with contextlib.suppress(BufferError):
            tensor.release()


def drop(weight: ir.Value) -> int:
    """Close the file of a matrix, and remove the matrix if nothing reads it. Return the number of bytes removed."""
    tensor, graph = weight_tensor(weight), weight.graph
    assert isinstance(graph, ir.Graph)
    close(tensor)
    for node in weight.consumers():
        _remove_layout(node)
    if is_read(weight):
        return 0
    if weight.is_initializer():
        del graph.initializers[str(weight.name)]
    else:
        writer = weight.producer()
        assert writer is not None
        graph.remove(writer, safe=True)
    return tensor.nbytes


def _remove_layout(node: ir.Node) -> None:
    """Remove a node that lays a matrix out, and those behind it, if nothing else reads them."""
    if not is_standard(node, *LAYOUT):
        return
    for each in node.outputs[0].consumers():
        _remove_layout(each)
    graph = node.graph
    if graph is not None and not is_read(node.outputs[0]):
        graph.remove(node, safe=True)


def add_initializer(graph: ir.Graph, name: str, array: Array) -> ir.Value:
    """Add an array to a graph."""
    tensor = ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)  # NumPy makes a number a row
    value = ir.val(name, const_value=tensor)
    graph.register_initializer(value)
    return value
