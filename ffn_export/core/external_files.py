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
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from ffn_export.core import plain_file
from ffn_export.errors import UsageError

_NUMBER = re.compile("[0-9]{1,18}")

# Number of a data type in onnx.proto -> bits of an element. A string has no size.
_BITS = {
    number: bits
    for bits, numbers in {
        2: (25, 26),
        4: (21, 22, 23),
        6: (27, 28),
        8: (2, 3, 9, 17, 18, 19, 20, 24),
        16: (4, 5, 10, 16),
        32: (1, 6, 12),
        64: (7, 11, 13, 14),
        128: (15,),
    }.items()
    for number in numbers
}


@dataclass(frozen=True)
class ExternalTensor:
    """A tensor that names an external file.

    Attributes:
        name: Name of the tensor.
        data_type: Number of its data type in onnx.proto.
        dims: Its shape.
        entries: Keys and values of its ``external_data``, as they are written.
        is_initializer: Whether it is an initializer of a graph.
    """

    name: str
    data_type: int
    dims: tuple[int, ...]
    entries: tuple[tuple[str, str], ...]
    is_initializer: bool

    @property
    def location(self) -> str:
        """The named file, as it is written."""
        return dict(self.entries).get("location", "")


def check(
    path: Path, tensors: Iterable[ExternalTensor], in_memory: Collection[str] = (), *, may_lack: bool = False
) -> None:
    """Check the external tensors of a model.

    Args:
        path: Path of the model.
        tensors: Its external tensors.
        in_memory: Names of tensors whose data is in memory, not in the file.
        may_lack: Whether the files of initializers may be missing or truncated. Their paths are checked anyway.

    Raises:
        UsageError: If a file lies outside the model's directory, is no regular file, is missing or is too short.
    """
    for tensor in tensors:
        data = _inside(path, tensor.location)
        start, size = extent(path, tensor)
        if may_lack and tensor.is_initializer:
            continue
        if not data.exists():
            raise UsageError(f"{path} keeps its weights in {data.name!r}, which is not beside it: copy both files")
        if tensor.name not in in_memory and data.stat().st_size < start + size:
            raise UsageError(f"{path} keeps its weights in {data.name!r}, which is cut off: copy or export it again")


def locations(tensors: Iterable[ExternalTensor]) -> set[str]:
    """Return the normalised paths of all files that are named: ``weights/../m.data`` becomes ``m.data``.

    Of a tensor that names several, a reader may take any.
    """
    return {
        os.path.normpath(value)
        for tensor in tensors
        for key, value in (*tensor.entries, ("location", tensor.location))
        if key == "location"
    }


def extent(path: Path, tensor: ExternalTensor) -> tuple[int, int]:
    """Return the offset of a tensor in its file, and its size in bytes.

    Raises:
        UsageError: If offset or length is not a number, or the length is too small for the tensor's shape.
    """
    entries = dict(tensor.entries)
    named = [entries.get(key, "0") for key in ("offset", "length")]
    if not all(map(_NUMBER.fullmatch, named)) or any(size < 0 for size in tensor.dims):
        raise UsageError(f"{path} is no valid ONNX graph: {tensor.name!r} lies at no place in a file")
    if tensor.data_type not in _BITS:
        raise UsageError(f"{path} is no valid ONNX graph: {tensor.name!r} is of no type with a size")
    size = (math.prod(tensor.dims) * _BITS[tensor.data_type] + 7) // 8
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
