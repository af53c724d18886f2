"""Read and write model files that hold their weights, without the weights in memory.

protobuf holds a whole file and a copy of each weight when it reads, and the same when it writes. Here large
initializers of the main graph are cut out of the file and put into it by protobuf's wire format alone:

1. :func:`without_weights` reads a file with those initializers as external tensors that lie in the file itself.
2. :func:`write_with_weights` writes them into a file one at a time, with the bytes that protobuf would write.

The rest goes through as it is, and so does a tensor that a parser might read in two ways.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import BinaryIO

import onnx_ir as ir

from ffn_export.core import plain_file
from ffn_export.core.wire_format import DELIMITED, VARINT, fields

_SMALL = 1024
_GRAPH, _INITIALIZER = 7, 5
_DATA_TYPE, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 2, 9, 13, 14
_STRING, _EXTERNAL = 8, 1


def without_weights(path: Path) -> bytes | None:
    """Return a model file with its large initializers as external tensors of the file, or None if it is not protobuf.

    Raises:
        UsageError: If the file is missing, is no regular file, or cannot be read.
    """
    with plain_file.open_file(path) as file:
        if os.fstat(file.fileno()).st_size == 0:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return bytes(_model(data, path.name))
            except ValueError:
                return None


def write_with_weights(model: ir.Model, file: BinaryIO) -> None:
    """Write a model with its weights, which are read one at a time.

    Args:
        model: The model, without external initializers in subgraphs. Those of the main graph are replaced while it is
            written.
        file: The file.

    Raises:
        Exception: Those of onnx-ir for what protobuf cannot hold.
    """
    weights = {
        value: tensor
        for value in model.graph.initializers.values()
        if (tensor := value.const_value) is not None and _is_cut_out(tensor)
    }
    try:
        for index, (value, tensor) in enumerate(weights.items()):
            value.const_value = _placeholder(tensor, index)
        data = ir.to_proto(model).SerializeToString(deterministic=True)
    finally:
        for value, tensor in weights.items():
            value.const_value = tensor
    tensors = list(weights.values())
    for number, kind, _, start, content, end in fields(data, 0, len(data)):
        if (number, kind) == (_GRAPH, DELIMITED):
            _write_graph(data, content, end, tensors, file)
        else:
            file.write(data[start:end])


def _is_cut_out(tensor: ir.TensorProtocol) -> bool:
    """Whether a weight is external or large; onnx-ir copies a tensor of protobuf's as it is."""
    if isinstance(tensor, ir.ExternalTensor):
        return True
    return not isinstance(tensor, ir.TensorProtoTensor | ir.StringTensor) and tensor.nbytes >= _SMALL


def _placeholder(tensor: ir.TensorProtocol, index: int) -> ir.ExternalTensor:
    """Return an external tensor that says which weight it stands for."""
    return ir.ExternalTensor(
        "",
        index,
        tensor.nbytes,
        tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=tensor.name or "",
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def _write_graph(data: bytes, begin: int, stop: int, tensors: list[ir.TensorProtocol], file: BinaryIO) -> None:
    # Parts of the graph, with the weight behind each.
    parts: list[tuple[bytes, ir.TensorProtocol | None]] = []
    for number, kind, _, start, content, end in fields(data, begin, stop):
        split = _split(data, content, end) if (number, kind) == (_INITIALIZER, DELIMITED) else None
        if split is None:
            parts.append((data[start:end], None))
            continue
        before, after, index = split
        tensor = tensors[index]
        before += _number(_RAW_DATA << 3 | DELIMITED) + _number(tensor.nbytes)
        size = len(before) + tensor.nbytes + len(after)
        parts += [(_number(_INITIALIZER << 3 | DELIMITED) + _number(size) + before, tensor), (after, None)]
    size = sum(len(part) + (0 if weight is None else weight.nbytes) for part, weight in parts)
    file.write(_number(_GRAPH << 3 | DELIMITED) + _number(size))
    for part, weight in parts:
        file.write(part)
        if isinstance(weight, ir.Tensor | ir.ExternalTensor):
            weight.tofile(file)
        elif weight is not None:
            file.write(weight.tobytes())
        if isinstance(weight, ir.ExternalTensor):
            weight.release()  # else all weights that were read stay mapped


def _split(data: bytes, begin: int, stop: int) -> tuple[bytes, bytes, int] | None:
    """Return what a placeholder has before and behind its data, and which weight it stands for."""
    before, after, entries = bytearray(), bytearray(), {}
    for number, _, _, start, content, end in fields(data, begin, stop):
        if number == _EXTERNAL_DATA:
            key, text = (data[place:last] for *_, place, last in fields(data, content, end))
            entries[key] = text
        elif number != _DATA_LOCATION:
            part = before if number < _RAW_DATA else after
            part += data[start:end]
    return (bytes(before), bytes(after), int(entries[b"offset"])) if entries and not entries[b"location"] else None


def _model(data: mmap.mmap, location: str) -> bytearray:
    made = bytearray()
    for number, kind, _, start, content, end in fields(data, 0, len(data)):
        if (number, kind) == (_GRAPH, DELIMITED):
            made += _delimited(_GRAPH, _graph(data, content, end, location))
        else:
            made += data[start:end]
    return made


def _graph(data: mmap.mmap, begin: int, stop: int, location: str) -> bytes:
    made = bytearray()
    for number, kind, _, start, content, end in fields(data, begin, stop):
        tensor = _tensor(data, content, end, location) if (number, kind) == (_INITIALIZER, DELIMITED) else None
        made += data[start:end] if tensor is None else _delimited(_INITIALIZER, tensor)
    return bytes(made)


def _tensor(data: mmap.mmap, begin: int, stop: int, location: str) -> bytes | None:
    """Return an initializer without its data, or None if it stays as it is."""
    if stop - begin < _SMALL:
        return None
    rest = bytearray()
    raw: list[tuple[int, int]] = []
    for number, kind, value, start, content, end in fields(data, begin, stop):
        if number in (_EXTERNAL_DATA, _DATA_LOCATION) or (number, value) == (_DATA_TYPE, _STRING):
            return None
        if (number, kind) == (_RAW_DATA, DELIMITED):
            raw.append((content, end - content))
        elif end - start > _SMALL:
            return None  # the numbers are not in raw_data
        else:
            rest += data[start:end]
    if len(raw) != 1 or raw[0][1] < _SMALL:
        return None
    (offset, length), *_ = raw
    for key, text in (("location", location), ("offset", str(offset)), ("length", str(length))):
        rest += _delimited(_EXTERNAL_DATA, _delimited(1, key.encode()) + _delimited(2, text.encode()))
    return bytes(rest) + _number(_DATA_LOCATION << 3 | VARINT) + _number(_EXTERNAL)


def _delimited(number: int, content: bytes) -> bytes:
    return _number(number << 3 | DELIMITED) + _number(len(content)) + content


def _number(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
