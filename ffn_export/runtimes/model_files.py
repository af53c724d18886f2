"""Write models to files for a runtime, with their weights in a file or in memory.

A weight that several models share is written once. ONNX Runtime reads weights in memory without a copy: writing or
copying those of BERT-base took longer than the runs.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ffn_export.core.contiguous import contiguous
from ffn_export.core.types import Array

_WEIGHTS = "weights.data"
_IN_MEMORY = "in-memory"
_SMALL = 1024
_ALIGNMENT = 4096  # so that a runtime may map it

_TAKEN_FROM_MEMORY = frozenset(
    {
        *(ir.DataType.from_numpy(np.dtype(name)) for name in ("?", *np.typecodes["AllInteger"], *"efd")),
        ir.DataType.BFLOAT16,
    }
)


class ModelFiles:
    """Models in one directory, with their weights in one shared file.

    Args:
        directory: The directory.
        weights: Name of the file of the weights; it is made for the first one.
    """

    def __init__(self, directory: Path, weights: str = _WEIGHTS) -> None:
        self._directory = directory
        self._weights = weights
        self._numbers = count()
        # The tensor is kept, so that no other object gets its id.
        self._written: dict[int, tuple[ir.TensorProtocol, ir.ExternalTensor]] = {}
        self._arrays: dict[int, tuple[ir.TensorProtocol, Array]] = {}

    def write(self, model: ir.Model) -> Path:
        """Write a model and return its path.

        Args:
            model: Model to write. It is modified: its weights refer to the file afterwards.
        """
        return self._write(model, frozenset())[0]

    def write_without_weights(self, model: ir.Model) -> tuple[Path, dict[str, Array]]:
        """Write a model; return its path, and the weights that the file only names: initializer -> array.

        A session without optimiser takes weights of the main graph from memory, in a dtype of NumPy's or bfloat16. All
        other weights are in the file. The arrays live as long as this object.

        Args:
            model: Model to write. It is modified: its weights refer to memory or to the file afterwards.
        """
        (self._directory / _IN_MEMORY).touch()  # a session requires that it exists, and never reads it
        return self._write(model, _TAKEN_FROM_MEMORY)

    def _write(self, model: ir.Model, in_memory: frozenset[ir.DataType]) -> tuple[Path, dict[str, Array]]:
        arrays = {}
        for graph in model.graphs():
            for name, value in graph.initializers.items():
                tensor = value.const_value
                if tensor is None or not _leaves_the_file(tensor):
                    continue
                if graph is model.graph and tensor.dtype in in_memory:
                    arrays[name] = self._array(tensor)
                    value.const_value = self._reference(_IN_MEMORY, 0, tensor)
                else:
                    value.const_value = self._stored(tensor)
        path = self._directory / f"model-{next(self._numbers)}.onnx"
        ir.save(model, path)
        return path, arrays

    def _array(self, tensor: ir.TensorProtocol) -> Array:
        known = self._arrays.get(id(tensor))
        if known is None:
            known = self._arrays[id(tensor)] = tensor, _in_place(tensor)
        return known[1]

    def _stored(self, tensor: ir.TensorProtocol) -> ir.ExternalTensor:
        known = self._written.get(id(tensor))
        if known is None:
            known = self._written[id(tensor)] = tensor, self._append(tensor)
        return known[1]

    def _append(self, tensor: ir.TensorProtocol) -> ir.ExternalTensor:
        path = self._directory / self._weights
        path.touch()
        with path.open("r+b") as file:  # not "ab": the kernel copies no file into one opened for appending
            file.seek(0, os.SEEK_END)
            file.write(b"\0" * (-file.tell() % _ALIGNMENT))
            offset = file.tell()
            if isinstance(tensor, ir.Tensor | ir.ExternalTensor):
                tensor.tofile(file)
            else:
                file.write(tensor.tobytes())
        if isinstance(tensor, ir.ExternalTensor):
            tensor.release()  # else all weights that were read stay mapped
        return self._reference(self._weights, offset, tensor)

    def _reference(self, file: str, offset: int, tensor: ir.TensorProtocol) -> ir.ExternalTensor:
        return ir.ExternalTensor(
            file,
            offset,
            tensor.nbytes,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=tensor.name or "",
            base_dir=self._directory,
        )


def _in_place(tensor: ir.TensorProtocol) -> Array:
    """Return a weight's array without a copy, unless it must be computed or is a transposed view."""
    if isinstance(tensor, ir.ExternalTensor):  # a separate mapping, which is released with the array
        array = np.memmap(tensor.path, tensor.dtype.numpy(), "r", tensor.offset or 0, tuple(tensor.shape.numpy()))
        return np.require(array, requirements=["C", "A"])
    return contiguous(tensor.numpy())


def _leaves_the_file(tensor: ir.TensorProtocol) -> bool:
    """Whether a weight is not stored in the model file: it is large, or in an external file elsewhere."""
    if isinstance(tensor, ir.ExternalTensor):
        return True
    return tensor.dtype != ir.DataType.STRING and tensor.nbytes > _SMALL
