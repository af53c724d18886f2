"""Convert sparse constants to dense ones: onnx-ir drops sparse initializers and cannot read sparse Constant nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper

from ffn_export.core.external_protos import all_graphs, all_nodes


def densify(proto: onnx.ModelProto) -> None:
    """Replace every sparse constant of a model by a dense one, in place."""
    for graph in all_graphs(proto):
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
    for node in all_nodes(proto):
        if node.op_type == "Constant":
            yield from (attribute for attribute in node.attribute if attribute.HasField("sparse_tensor"))
