"""Exports made once in a run: the same module in the same state gives the same graph."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import torch

from ffn_export.exporter.source import Source

Export = Callable[[Source, int], ir.Model]

# pickle refuses a class that its module does not hold under its name, such as one made in a function.
_LIBRARIES = ("torch.nn.", "ffn_export.", "transformers.", "tests.")
_MOST_BYTES = 2**25


def remembered(export: Export, directory: Path) -> Export:
    """Return an export that gives a copy of the graph where the same module was exported before.

    Processes of one run, which has the directory, share what they have exported.
    """
    made: dict[str, onnx.ModelProto] = {}

    @wraps(export)
    def call(source: Source, opset: int) -> ir.Model:
        key = _key(source, opset)
        if key is None:
            return export(source, opset)
        file = directory / f"{key}.onnx"
        if key not in made and file.exists():
            made[key] = onnx.load(file)
        if key in made:
            return ir.from_proto(made[key])
        model = export(source, opset)
        made[key] = ir.to_proto(model)
        own = file.with_suffix(f".{os.getpid()}")
        own.write_bytes(made[key].SerializeToString())
        own.replace(file)
        return model

    return call


def _key(source: Source, opset: int) -> str | None:
    """Return a digest of all that an export depends on; None for modules of other code, and for large ones."""
    module = source.module
    if source.samples is not None or source.program is not None:
        return None
    if not all(type(each).__module__.startswith(_LIBRARIES) for each in module.modules()):
        return None
    if sum(each.nbytes for each in (*module.parameters(), *module.buffers())) > _MOST_BYTES:
        return None
    written = io.BytesIO()
    try:
        _Pickler(written).dump(
            (opset, source.name, source.inputs, source.outputs, source.least_traced, source.call, module)
        )
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):  # a function without a name, for one
        return None
    return hashlib.sha256(written.getvalue()).hexdigest()


class _Pickler(pickle.Pickler):
    """Writes tensors as their numbers: torch's own format has another name for each storage."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._tensors: dict[int, int] = {}

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return None
        if id(value) in self._tensors:  # tied weights
            return self._tensors[id(value)]
        self._tensors[id(value)] = len(self._tensors)
        numbers = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return type(value).__name__, str(value.dtype), tuple(value.shape), value.stride(), numbers
