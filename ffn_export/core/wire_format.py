"""Find the tensors of a serialised ONNX model that name external files, by protobuf's wire format alone.

Loading a bundle needs neither onnx nor onnx-ir, and what a model of a stranger reads is known before ONNX Runtime opens
it. Where protobuf merges a message that is given twice, each part is visited, so at least as many files are found as
any parser reads. A record that a parser might read in two ways is refused: a group, or a number that is too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from mmap import mmap
from pathlib import Path

from ffn_export.core import plain_file
from ffn_export.core.external_files import ExternalTensor
from ffn_export.errors import UsageError

_MOST_BYTES = 2**31

# Message -> number of a field -> message in it. Of every message of onnx.proto that can hold a tensor.
_INSIDE: Mapping[str, Mapping[int, str]] = {
    "Model": {7: "Graph", 20: "Training", 25: "Function"},
    "Training": {1: "Graph", 2: "Graph"},
    "Function": {7: "Node", 11: "Attribute"},
    "Graph": {1: "Node", 5: "Initializer", 15: "Sparse"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "Sparse", 23: "Sparse"},
    "Sparse": {1: "Tensor", 2: "Tensor"},
}
_DIMS, _DATA_TYPE, _NAME, _EXTERNAL_DATA, _DATA_LOCATION = 1, 2, 8, 13, 14
_EXTERNAL = 1
VARINT, DELIMITED = 0, 2
_SIZES = {1: 8, 5: 4}  # wire type of a number of fixed size -> its bytes

_Data = memoryview | bytes | mmap


def external_tensors(path: Path) -> list[ExternalTensor]:
    """Return the external tensors of a model file.

    Raises:
        UsageError: If the file cannot be read, or is no protobuf message.
    """
    data = memoryview(plain_file.read_bytes(path, _MOST_BYTES))
    found: list[ExternalTensor] = []
    waiting = [("Model", data)]
    try:
        while waiting:
            kind, message = waiting.pop()
            if kind in _INSIDE:
                parts = [(_INSIDE[kind].get(number), part) for number, part in _values(message)]
                waiting += [(name, part) for name, part in parts if name and not isinstance(part, int)]
            elif (tensor := _external(message, is_initializer=kind == "Initializer")) is not None:
                found.append(tensor)
    except ValueError as error:
        raise UsageError(f"{path} is no ONNX model: it does not parse as protobuf") from error
    return found


def _external(message: memoryview, *, is_initializer: bool) -> ExternalTensor | None:
    """Return a tensor if its data is external."""
    dims: list[int] = []
    entries: list[tuple[str, str]] = []
    name, data_type, location = "", 0, 0
    for number, value in _values(message):
        if isinstance(value, int):
            if number == _DIMS:
                dims.append(_signed(value))
            elif number == _DATA_TYPE:
                data_type = value % 2**32
            elif number == _DATA_LOCATION:
                location = value % 2**32  # as a parser reads an enumeration
        elif number == _DIMS:
            dims += map(_signed, _packed(value))
        elif number == _NAME:
            name = str(value, "utf-8", "replace")
        elif number == _EXTERNAL_DATA:
            entries.append(_entry(value))
    if location != _EXTERNAL and not entries:
        return None
    return ExternalTensor(name, data_type, tuple(dims), tuple(entries), is_initializer)


def _entry(message: memoryview) -> tuple[str, str]:
    texts = {number: str(part, "utf-8") for number, part in _values(message) if not isinstance(part, int)}
    return texts.get(1, ""), texts.get(2, "")


def _packed(data: memoryview) -> Iterator[int]:
    place = 0
    while place < len(data):
        value, place = _varint(data, place)
        yield value


def _values(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number of each field that is a whole number or has a length, and its value."""
    for number, kind, value, _, content, end in fields(message, 0, len(message)):
        if kind in (VARINT, DELIMITED):
            yield number, value if kind == VARINT else message[content:end]


def fields(data: _Data, place: int, stop: int) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Yield number, wire type, value of a number, beginning of the field and of its content, and end of each field.

    Raises:
        ValueError: If it is no message of ONNX.
    """
    while place < stop:
        start = place
        tag, place = _varint(data, place)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 2**29:
            raise ValueError("no field has this number")
        value, content = 0, place
        if kind == VARINT:
            value, place = _varint(data, place)
        elif kind == DELIMITED:
            length, content = _varint(data, place)
            place = content + length
        elif kind in _SIZES:
            place += _SIZES[kind]
        else:
            raise ValueError("ONNX has no groups")
        if place > stop:
            raise ValueError("the message is cut off")
        yield number, kind, value, start, content, place


def _varint(data: _Data, place: int) -> tuple[int, int]:
    """Return a number and the place after it."""
    value = shift = 0
    while place < len(data):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, place
        shift += 7
        if shift > 63:
            break
    raise ValueError("the number does not end, or is too long")


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
