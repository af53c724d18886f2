"""Read the matrix of a product, and replace it in the graph. Large matrices stay in their file."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array


def read_matrix(weight: ir.Value, *, turned: bool) -> Array:
    """Return a matrix as ``[d_in, d_out]``. It may be a view of a mapped file."""
    assert weight.const_value is not None
    array: Array = weight.const_value.numpy()
    return array.T if turned else array


def close(weight: ir.Value) -> None:
    """Close the file of a matrix, unless a view of it still exists."""
    if isinstance(weight.const_value, ir.ExternalTensor):
        with contextlib.suppress(BufferError):
            weight.const_value.release()


def drop(weight: ir.Value) -> int:
    """Close the file of a matrix, and remove the matrix if nothing reads it. Return the number of bytes removed."""
    tensor, graph = weight.const_value, weight.graph
    assert tensor is not None
    assert isinstance(graph, ir.Graph)
    close(weight)
    if weight.uses() or weight.is_graph_output():
        return 0
    del graph.initializers[str(weight.name)]
    return tensor.nbytes


def add_initializer(graph: ir.Graph, name: str, array: Array) -> ir.Value:
    """Add an array to a graph."""
    tensor = ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)  # NumPy makes a number a row
    value = ir.val(name, const_value=tensor)
    graph.register_initializer(value)
    return value
