"""ONNX's reference evaluator in half precision: its operators that sum do so in float32, as kernels do.

The evaluator adds up a float16 row in float16, which overflows in a norm, and multiplies bfloat16
matrices element by element, which takes seconds for one layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_gemm, op_layer_normalization, op_matmul, op_rms_normalization

from ffn_export.exporter.drawing import Array


def widened(array: Array) -> Array:
    """Return half precision as float32, and anything wider as it is."""
    return array.astype(np.promote_types(array.dtype, np.float32), copy=False)


def _in_float32(name: str, operator: Any) -> type[OpRun]:
    """Return an operator that computes in float32 and rounds its first output once; a norm's statistics stay."""

    def _run(self: OpRun, *inputs: Any, **attributes: Any) -> tuple[Array, ...]:
        given = [None if array is None else widened(array) for array in inputs]
        first, *statistics = operator._run(self, *given, **attributes)
        return (first.astype(inputs[0].dtype), *statistics)

    return type(name, (operator,), {"_run": _run})


OPERATORS: tuple[type[OpRun], ...] = (
    _in_float32("MatMul", op_matmul.MatMul),
    _in_float32("Gemm", op_gemm.Gemm_7),
    _in_float32("LayerNormalization", op_layer_normalization.LayerNormalization),
    _in_float32("RMSNormalization", op_rms_normalization.RMSNormalization),
)
