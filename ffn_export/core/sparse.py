"""Convert sparse constants to dense ones: onnx-ir drops sparse initializers and cannot read sparse Constant nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper


def has_sparse(proto: onnx.ModelProto) -> bool:
    """Whether the model has a sparse constant."""
    return any(graph.sparse_initializer for graph in _graphs(proto)) or any(_sparse_constants(proto))


def densify(proto: onnx.ModelProto) -> None:
    """Replace every sparse constant of a model by a dense one, in place."""
    for graph in _graphs(proto):
        for sparse in graph.sparse_initializer:
            graph.initializer.append(_dense(sparse))
        del graph.sparse_initializer[:]
    for attribute in list(_sparse_constants(proto)):
        dense = _dense(attribute.sparse_tensor)
        attribute.Clear()
        attribute.CopyFrom(onnx.helper.make_attribute("value", dense))


def _dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    array = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        array.reshape(-1)[indices] = values
    else:
        array[tuple(indices.T)] = values
    return numpy_helper.from_array(array, sparse.values.name)


def _sparse_constants(proto: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    for node in _nodes(proto):
        if node.op_type == "Constant":
            yield from (attribute for attribute in node.attribute if attribute.HasField("sparse_tensor"))


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    for graph in _graphs(proto):
        yield from graph.node
    for function in proto.functions:
        yield from function.node


def _graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    waiting = [proto.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                waiting += [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
