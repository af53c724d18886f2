"""External tensors of a parsed model, wherever in it they stand."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx

from ffn_export.core import plain_file
from ffn_export.core.external_files import ExternalTensor, extent


def external_tensors(proto: onnx.ModelProto) -> list[ExternalTensor]:
    """Return the external tensors of a model."""
    return [_described(tensor, is_initializer) for tensor, is_initializer in _kept_outside(proto)]


def read_in(path: Path, proto: onnx.ModelProto) -> None:
    """Read the external tensors that are not initializers into the model, after ``external_files.check``.

    Initializers stay on disk until they are needed. Other tensors are small, and no library finds all of them.
    """
    for tensor, is_initializer in _kept_outside(proto):
        if is_initializer:
            continue
        described = _described(tensor, is_initializer)
        start, size = extent(path, described)
        with plain_file.open_file(path.parent / os.path.normpath(described.location)) as file:
            file.seek(start)
            tensor.raw_data = file.read(size)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _described(tensor: onnx.TensorProto, is_initializer: bool) -> ExternalTensor:
    entries = tuple((entry.key, entry.value) for entry in tensor.external_data)
    return ExternalTensor(tensor.name, tensor.data_type, tuple(tensor.dims), entries, is_initializer)


def _kept_outside(proto: onnx.ModelProto) -> Iterator[tuple[onnx.TensorProto, bool]]:
    """Yield every external tensor of a model, and whether it is an initializer."""
    for graph in all_graphs(proto):
        for tensor in filter(_is_external, graph.initializer):
            yield tensor, True
        for sparse in graph.sparse_initializer:
            yield from ((tensor, False) for tensor in (sparse.values, sparse.indices) if _is_external(tensor))
    for attribute in _attributes(proto):
        yield from ((tensor, False) for tensor in _of_attribute(attribute) if _is_external(tensor))


def _attributes(proto: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    for node in all_nodes(proto):
        yield from node.attribute
    for function in proto.functions:
        yield from function.attribute_proto


def _of_attribute(attribute: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    one = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
    for sparse in (*one, *attribute.sparse_tensors):
        yield from (sparse.values, sparse.indices)


def _is_external(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL or bool(tensor.external_data)


def all_nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield every node of a model: those of all graphs, and of functions."""
    for nodes in (*(graph.node for graph in all_graphs(proto)), *(function.node for function in proto.functions)):
        yield from nodes


def all_graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield every graph of a model: the main graph, training graphs, and the subgraphs of these and of functions."""
    waiting = [proto.graph]
    for training in proto.training_info:
        waiting += [training.initialization, training.algorithm]
    for function in proto.functions:
        waiting += _bodies(function.attribute_proto)
        waiting += (body for node in function.node for body in _bodies(node.attribute))
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += (body for node in graph.node for body in _bodies(node.attribute))


def _bodies(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.GraphProto]:
    for attribute in attributes:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
