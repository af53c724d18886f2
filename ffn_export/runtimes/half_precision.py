"""Operators for ONNX's reference evaluator that sum half precision in float32, as kernels do.

The evaluator itself

1. sums a float16 row in float16, which overflows in a norm,
2. sums a bfloat16 row in bfloat16, where 256 + 1 is 256, so that a softmax over a thousand keys is wrong,
3. multiplies bfloat16 matrices element by element, which takes seconds for one layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.defs import get_schema
from onnx.reference.op_run import OpRun
from onnx.reference.ops import (
    op_gemm,
    op_layer_normalization,
    op_log_softmax,
    op_matmul,
    op_reduce_l1,
    op_reduce_l2,
    op_reduce_mean,
    op_reduce_sum,
    op_reduce_sum_square,
    op_rms_normalization,
    op_softmax,
)

from ffn_export.core.types import Array


def widened(array: Array) -> Array:
    """Convert half precision to float32; return wider dtypes unchanged."""
    return array.astype(np.promote_types(array.dtype, np.float32), copy=False)


def _in_float32(name: str, operator: Any, **members: Any) -> type[OpRun]:
    """Return an operator that computes in float32 and rounds its first output once; statistics stay float32."""

    def _run(self: OpRun, *inputs: Any, **attributes: Any) -> tuple[Array, ...]:
        given = [widened(array) if _is_half(array) else array for array in inputs]
        first, *statistics = operator._run(self, *given, **attributes)
        return (first.astype(inputs[0].dtype), *statistics)

    return type(name, (operator,), {"_run": _run, **members})


def _is_half(array: Array | None) -> bool:
    return array is not None and array.dtype.name in ("float16", "bfloat16")


_SAME = (
    _in_float32("MatMul", op_matmul.MatMul),
    _in_float32("Gemm", op_gemm.Gemm_7),
    _in_float32("LayerNormalization", op_layer_normalization.LayerNormalization),
    _in_float32("RMSNormalization", op_rms_normalization.RMSNormalization),
    _in_float32("Softmax", op_softmax.Softmax),
    _in_float32("LogSoftmax", op_log_softmax.LogSoftmax),
)
_REDUCTIONS = (
    # The opset in which the axes became an input, and the operator before and since.
    (18, op_reduce_mean.ReduceMean_1, op_reduce_mean.ReduceMean_18),
    (18, op_reduce_sum_square.ReduceSumSquare_1, op_reduce_sum_square.ReduceSumSquare_18),
    (18, op_reduce_l1.ReduceL1_1, op_reduce_l1.ReduceL1_18),
    (18, op_reduce_l2.ReduceL2_1, op_reduce_l2.ReduceL2_18),
    (13, op_reduce_sum.ReduceSum_1, op_reduce_sum.ReduceSum_13),
)


def operators(opset: int) -> tuple[type[OpRun], ...]:
    """Return the operators of a graph of this opset."""
    reductions = []
    for first, before, since in _REDUCTIONS:
        name = since.__name__.partition("_")[0]
        # For the defaults of this opset: the evaluator uses the newest schema of the name.
        schema = get_schema(name, opset)
        reductions.append(_in_float32(name, since if opset >= first else before, op_schema=schema))
    return (*_SAME, *reductions)
