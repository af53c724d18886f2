"""Opens a model to look at it, also where its weights are not all there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.strict import expose_own
from ffn_export.errors import UsageError
from ffn_export.inspection import facts


@dataclass(frozen=True)
class OpenModel:
    """A model, and what is missing of it.

    Attributes:
        path: The ONNX file.
        model: The graph; initialisers whose data is missing hold stand-ins of the right dtype and shape.
        missing: Those initialisers.
        note: What is missing, in one line; None where all is there.
    """

    path: Path
    model: ir.Model
    missing: frozenset[ir.Value] = frozenset()
    note: str | None = None


def read(path: Path) -> OpenModel:
    """Open an ONNX file.

    Raises:
        UsageError: If it is missing or is no ONNX model; missing weights are no error here.
    """
    try:
        return OpenModel(path, onnx_file.load(path))
    except UsageError as error:
        incomplete = _without_data(path)
        if incomplete is None:
            raise error from None
        return incomplete


def file_bytes(opened: OpenModel) -> int:
    """Return the size of the file and of what it keeps beside it."""
    data = {Path(t.path) for v in facts.initializers(opened.model) if isinstance(t := v.const_value, ir.ExternalTensor)}
    return sum(path.stat().st_size for path in {opened.path, *data} if path.is_file())


def _without_data(path: Path) -> OpenModel | None:
    """Open a file whose external data is missing; None where that is not what is wrong with it."""
    try:
        model = onnx_file.read(path, may_lack=True)
    except Exception as error:  # noqa: BLE001 - whatever the parser raises: the caller has said it better
        expose_own(error)
        return None
    values = facts.initializers(model)
    missing = {v: t for v in values if isinstance(t := v.const_value, ir.ExternalTensor) and not _is_there(t)}
    if not missing:
        return None
    files = ", ".join(sorted({repr(Path(tensor.path).name) for tensor in missing.values()}))
    size = sum(tensor.nbytes for tensor in missing.values())
    for value, tensor in missing.items():
        value.const_value = _stand_in(tensor)
    note = f"{len(missing)} of {len(values)} initializers ({size:,} bytes) are not there: {files} is missing or cut off"
    return OpenModel(path, model, frozenset(missing), note)


def _is_there(tensor: ir.ExternalTensor) -> bool:
    data = Path(tensor.path)
    return data.is_file() and data.stat().st_size >= (tensor.offset or 0) + max(tensor.nbytes, tensor.length or 0)


def _stand_in(tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    """Return a tensor of NaN, which no rule takes for a number it knows; one element in memory, whatever its shape."""
    dtype = tensor.dtype.numpy()
    fill = np.array(np.nan if tensor.dtype.is_floating_point() else 0).astype(dtype)
    view = np.broadcast_to(fill, tensor.shape.numpy())
    return ir.Tensor(view, dtype=tensor.dtype, name=tensor.name)
