"""Open a model for inspection, also if some of its external data is missing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.strict import expose_own
from ffn_export.errors import UsageError


@dataclass(frozen=True)
class OpenModel:
    """A model, and its missing data.

    Attributes:
        path: The ONNX file.
        model: The model; initializers with missing data hold placeholders of the right dtype and shape.
        missing: Initializers with missing data.
        note: The missing data in one line; None if the model is complete.
    """

    path: Path
    model: ir.Model
    missing: frozenset[ir.Value] = frozenset()
    note: str | None = None


def read(path: Path) -> OpenModel:
    """Open an ONNX file.

    Raises:
        UsageError: If the file is missing or is not an ONNX model; missing external data is no error.
    """
    try:
        return OpenModel(path, onnx_file.load(path))
    except UsageError as error:
        incomplete = _without_data(path)
        if incomplete is None:
            raise error from None
        return incomplete


def file_bytes(opened: OpenModel) -> int:
    """Return the size of the file and its external data."""
    data = {Path(t.path) for _, t in onnx_file.weights(opened.model) if isinstance(t, ir.ExternalTensor)}
    return sum(path.stat().st_size for path in {opened.path, *data} if path.is_file())


def _without_data(path: Path) -> OpenModel | None:
    """Open a file with missing external data; return None if no data is missing or the file cannot be read."""
    try:
        model = onnx_file.read(path, may_lack=True)
    except Exception as error:  # noqa: BLE001 - whatever the parser raises; the caller has a better message
        expose_own(error)
        return None
    stored = onnx_file.weights(model)
    missing = {v: t for v, t in stored if isinstance(t, ir.ExternalTensor) and not _is_there(t)}
    if not missing:
        return None
    try:
        stand_ins = {value: _stand_in(tensor) for value, tensor in missing.items()}
    except ValueError:  # more numbers than an array of NumPy has
        return None
    files = ", ".join(sorted({repr(Path(tensor.path).name) for tensor in missing.values()}))
    size = sum(tensor.nbytes for tensor in missing.values())
    for value, tensor in stand_ins.items():
        value.const_value = tensor
    note = f"{len(missing)} of {len(stored)} initializers ({size:,} bytes) are not there: {files} is missing or cut off"
    return OpenModel(path, model, frozenset(missing), note)


def _is_there(tensor: ir.ExternalTensor) -> bool:
    data = Path(tensor.path)
    return data.is_file() and data.stat().st_size >= (tensor.offset or 0) + max(tensor.nbytes, tensor.length or 0)


def _stand_in(tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    """Return a placeholder of one element in memory: NaN, which matches no constant of a rule, or 0 for integers."""
    dtype = tensor.dtype.numpy()
    fill = np.array(np.nan if tensor.dtype.is_floating_point() else 0).astype(dtype)
    view = np.broadcast_to(fill, tensor.shape.numpy())
    return ir.Tensor(view, dtype=tensor.dtype, name=tensor.name)
