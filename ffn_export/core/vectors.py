"""Test vectors in ONNX's layout: ``test_data_set_0/input_0.pb``, ``output_0.pb``.

Loading a bundle needs the name of their directory and no onnx, which is therefore imported late.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from ffn_export.core import plain_file
from ffn_export.core.types import Array
from ffn_export.errors import IntegrityError, UsageError

DIRECTORY = "test_data_set_0"
_MOST_BYTES = 2**31


def write(directory: Path, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
    """Write arrays in graph order, replacing earlier test vectors."""
    import onnx_ir as ir

    target = directory / DIRECTORY
    shutil.rmtree(target, ignore_errors=True)  # an earlier model may have had more inputs or outputs
    target.mkdir()
    for prefix, arrays in (("input", inputs), ("output", outputs)):
        for index, (name, array) in enumerate(arrays.items()):
            proto = ir.serde.serialize_tensor(ir.Tensor(array, name=name))
            (target / f"{prefix}_{index}.pb").write_bytes(proto.SerializeToString(deterministic=True))


def read(directory: Path) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the inputs and the expected outputs.

    Raises:
        IntegrityError: If inputs or outputs are missing, or one does not parse.
    """
    target = directory / DIRECTORY
    return read_inputs(target), _read(target, "output")


def read_inputs(target: Path) -> dict[str, Array]:
    """Return the inputs of one set: ``TARGET/input_0.pb`` and so on.

    Raises:
        IntegrityError: If there are no inputs, or one does not parse.
    """
    return _read(target, "input")


def _read(target: Path, prefix: str) -> dict[str, Array]:
    import onnx
    import onnx_ir as ir

    arrays: dict[str, Array] = {}
    for index in count():  # files with other names are ignored
        path = target / f"{prefix}_{index}.pb"
        if not path.exists():
            break
        proto = onnx.TensorProto()
        try:
            proto.ParseFromString(plain_file.read_bytes(path, _MOST_BYTES))
            if proto.external_data:
                raise ValueError("its numbers are in another file")
            tensor = ir.serde.deserialize_tensor(proto)
            arrays[str(tensor.name)] = tensor.numpy()
        except UsageError as error:
            raise IntegrityError(str(error)) from error
        except Exception as error:
            raise IntegrityError(f"{path} is no ONNX tensor") from error
    if not arrays:
        raise IntegrityError(f"{target} holds no {prefix} vectors")
    return arrays
