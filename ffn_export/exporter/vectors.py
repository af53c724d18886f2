"""Test vectors in ONNX's own layout: ``test_data_set_0/input_0.pb``, ``output_0.pb``."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import onnx
import onnx_ir as ir

from ffn_export.errors import IntegrityError
from ffn_export.exporter.drawing import Array

DIRECTORY = "test_data_set_0"


def write(directory: Path, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
    """Write arrays in graph order, in the place of what was there."""
    target = directory / DIRECTORY
    shutil.rmtree(target, ignore_errors=True)  # another model may have had more of them
    target.mkdir()
    for prefix, arrays in (("input", inputs), ("output", outputs)):
        for index, (name, array) in enumerate(arrays.items()):
            proto = ir.serde.serialize_tensor(ir.Tensor(array, name=name))
            (target / f"{prefix}_{index}.pb").write_bytes(proto.SerializeToString(deterministic=True))


def read(directory: Path) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the inputs and the expected outputs.

    Raises:
        IntegrityError: If there are none, or one does not parse.
    """
    target = directory / DIRECTORY
    return read_inputs(target), _read(target, "output")


def read_inputs(target: Path) -> dict[str, Array]:
    """Return the inputs of one set: ``TARGET/input_0.pb`` and so on.

    Raises:
        IntegrityError: If there are none, or one does not parse.
    """
    return _read(target, "input")


def _read(target: Path, prefix: str) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for path in sorted(target.glob(f"{prefix}_*.pb"), key=lambda p: int(p.stem.rpartition("_")[2])):
        proto = onnx.TensorProto()
        try:
            proto.ParseFromString(path.read_bytes())
            tensor = ir.serde.deserialize_tensor(proto)
        except Exception as error:
            raise IntegrityError(f"{path} is no ONNX tensor") from error
        arrays[str(tensor.name)] = tensor.numpy()
    if not arrays:
        raise IntegrityError(f"{target} holds no {prefix} vectors")
    return arrays
