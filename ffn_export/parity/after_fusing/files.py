"""Hands models to a runtime through files: a weight that several models share is written once."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import onnx_ir as ir

_WEIGHTS = "weights.data"
_SMALL = 1024
_ALIGNMENT = 4096  # so that a runtime may map it


class ModelFiles:
    """Models in one directory, and their weights in one file beside them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = count()
        # The tensor is held, so that its id is not given to another.
        self._written: dict[int, tuple[ir.TensorProtocol, ir.ExternalTensor]] = {}

    def write(self, model: ir.Model) -> Path:
        """Write a model and return its path.

        Args:
            model: It is changed: its weights are in the file afterwards.
        """
        for graph in model.graphs():
            for value in graph.initializers.values():
                if value.const_value is not None and _is_large(value.const_value):
                    value.const_value = self._stored(value.const_value)
        path = self._directory / f"model-{next(self._numbers)}.onnx"
        ir.save(model, path)
        return path

    def _stored(self, tensor: ir.TensorProtocol) -> ir.ExternalTensor:
        known = self._written.get(id(tensor))
        if known is None:
            known = self._written[id(tensor)] = tensor, self._append(tensor)
        return known[1]

    def _append(self, tensor: ir.TensorProtocol) -> ir.ExternalTensor:
        path = self._directory / _WEIGHTS
        path.touch()
        with path.open("r+b") as file:  # not for appending: the kernel copies no file into such a one
            file.seek(0, os.SEEK_END)
            file.write(b"\0" * (-file.tell() % _ALIGNMENT))
            offset = file.tell()
            if isinstance(tensor, ir.Tensor | ir.ExternalTensor):
                tensor.tofile(file)
            else:
                file.write(tensor.tobytes())
        if isinstance(tensor, ir.ExternalTensor):
            tensor.release()  # else all of a model that is read in passing stays mapped
        return ir.ExternalTensor(
            _WEIGHTS, offset, tensor.nbytes, tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=tensor.name or "",
            base_dir=self._directory,
        )  # fmt: skip


def _is_large(tensor: ir.TensorProtocol) -> bool:
    return tensor.dtype != ir.DataType.STRING and tensor.nbytes > _SMALL
