"""Convert arrays to and from OrtValues, also in bfloat16, which ONNX Runtime's Python API does not convert.

An input is passed as 16-bit integers with its ONNX type. An output is read from its address.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.types import Array

if TYPE_CHECKING:
    import onnxruntime

_BFLOAT16 = 16  # onnx.TensorProto.BFLOAT16


def to_ort_value(array: Array) -> onnxruntime.OrtValue:
    """Wrap an array; the value keeps it alive."""
    import onnxruntime

    array = np.asarray(array, order="C")
    if array.dtype.name != "bfloat16":
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), _BFLOAT16)


def to_array(value: onnxruntime.OrtValue) -> Array:
    """Return a tensor in host memory as an array; bfloat16 becomes ml_dtypes' bfloat16."""
    if value.element_type() != _BFLOAT16:
        array: Array = value.numpy()
        return array
    if value.device_name().lower() != "cpu":  # a device address: reading it would crash the process
        raise RuntimeError(f"a tensor in bfloat16 is on {value.device_name()}, not in host memory")
    bits = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(bits, numpy_dtype("bfloat16")).reshape(value.shape())
