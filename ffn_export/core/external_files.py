"""External data files of a model, checked before any is opened.

An initializer can be in an external file, and so can a constant of a node, of a subgraph or of a function. The file
must be in the model's directory or below, the same rule as in ONNX's checker and ONNX Runtime. A link is followed if
its target is in there too. If the model itself is a link, the target may also be beside the model's target, since the
Hugging Face cache consists of links.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import onnx
import onnx_ir as ir

from ffn_export.core import plain_file
from ffn_export.errors import UsageError

_NUMBER = re.compile("[0-9]{1,18}")


def check(path: Path, proto: onnx.ModelProto, in_memory: Collection[str] = (), *, may_lack: bool = False) -> None:
    """Check each external tensor of a model.

    Args:
        path: Path of the model.
        proto: The parsed model.
        in_memory: Names of tensors whose data is in memory, not in the file.
        may_lack: Whether the files of initializers may be missing or truncated. Their paths are checked anyway.

    Raises:
        UsageError: If a file lies outside the model's directory, is no regular file, is missing or is too short.
    """
    for tensor, is_initializer in _kept_outside(proto):
        data = _inside(path, _location(tensor))
        start, size = _extent(path, tensor)
        if may_lack and is_initializer:
            continue
        if not data.exists():
            raise UsageError(f"{path} keeps its weights in {data.name!r}, which is not beside it: copy both files")
        if tensor.name not in in_memory and data.stat().st_size < start + size:
            raise UsageError(f"{path} keeps its weights in {data.name!r}, which is cut off: copy or export it again")


def read_in(path: Path, proto: onnx.ModelProto) -> None:
    """Read the external tensors that are not initializers into the model, after :func:`check`.

    Initializers stay on disk until they are needed. Other tensors are small, and no library finds all of them.
    """
    for tensor, is_initializer in _kept_outside(proto):
        if is_initializer:
            continue
        start, size = _extent(path, tensor)
        with plain_file.open_file(path.parent / os.path.normpath(_location(tensor))) as file:
            file.seek(start)
            tensor.raw_data = file.read(size)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def locations(proto: onnx.ModelProto) -> set[str]:
    """Return the normalised paths of all external files of a model: ``weights/../m.data`` becomes ``m.data``."""
    return {os.path.normpath(_location(tensor)) for tensor, _ in _kept_outside(proto)}


def _extent(path: Path, tensor: onnx.TensorProto) -> tuple[int, int]:
    """Return the offset of a tensor in its file, and its size in bytes.

    Raises:
        UsageError: If offset or length is not a number, or the length is too small for the tensor's shape.
    """
    entries = _entries(tensor)
    named = [entries.get(key, "0") for key in ("offset", "length")]
    if not all(map(_NUMBER.fullmatch, named)) or any(size < 0 for size in tensor.dims):
        raise UsageError(f"{path} is no valid ONNX graph: {tensor.name!r} lies at no place in a file")
    try:
        bits = ir.DataType(tensor.data_type).bitwidth
    except (TypeError, ValueError) as error:
        raise UsageError(f"{path} is no valid ONNX graph: {tensor.name!r} is of no type with a size") from error
    size = (math.prod(tensor.dims) * bits + 7) // 8
    start, length = map(int, named)
    if "length" in entries and length < size:
        raise UsageError(
            f"{path} is no valid ONNX graph: {tensor.name!r} has {length:,} bytes, its shape takes {size:,}"
        )
    return start, max(size, length)


def _inside(path: Path, location: str) -> Path:
    """Return the path of an external file of a model.

    Raises:
        UsageError: If the file lies outside the model's directory, or exists and is no regular file.
    """
    plain = Path(os.path.normpath(location))
    data = path.parent / plain
    try:
        homes = (path.parent.resolve(), path.resolve().parent)
        is_outside = plain.is_absolute() or os.pardir in plain.parts[:1]
        is_outside = is_outside or not any(data.resolve().is_relative_to(home) for home in homes)
        problem = plain_file.problem(data) if data.exists() else None
    except (OSError, ValueError, RuntimeError) as error:  # a name that is too long or has a NUL, or a loop of links
        raise UsageError(f"{path} keeps its weights in {location[:200]!r}, which is the path of no file") from error
    if is_outside:
        raise UsageError(f"{path} keeps its weights in {str(plain)!r}, outside of its directory: copy them beside it")
    if problem is not None:
        raise UsageError(f"{path} keeps its weights in {str(plain)!r}, which {problem}")
    return data


def _kept_outside(proto: onnx.ModelProto) -> Iterator[tuple[onnx.TensorProto, bool]]:
    """Yield every external tensor of a model, and whether it is an initializer."""
    for graph in _graphs(proto):
        for tensor in filter(_is_external, graph.initializer):
            yield tensor, True
        for sparse in graph.sparse_initializer:
            yield from ((tensor, False) for tensor in (sparse.values, sparse.indices) if _is_external(tensor))
    for attribute in _attributes(proto):
        yield from ((tensor, False) for tensor in _of_attribute(attribute) if _is_external(tensor))


def _attributes(proto: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    for nodes in (*(graph.node for graph in _graphs(proto)), *(function.node for function in proto.functions)):
        for node in nodes:
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


def _entries(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _location(tensor: onnx.TensorProto) -> str:
    return _entries(tensor).get("location", "")


def _graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
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
