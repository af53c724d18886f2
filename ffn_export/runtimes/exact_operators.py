"""Operators that ONNX's reference evaluator computes otherwise than the standard says.

Some of its own fall back to float32 on the way, and one takes the first column for all.
"""

from __future__ import annotations

import math

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops._op import OpRunUnaryNum
from scipy import special

from ffn_export.exporter.drawing import Array


class Erf(OpRunUnaryNum):
    """The error function in the dtype that it is given; the evaluator's own goes through float32."""

    def _run(self, x: Array) -> tuple[Array]:
        return (special.erf(x).astype(x.dtype),)


class Gelu(OpRun):
    """GELU with constants of the dtype that it is given; the body of the standard has them in float32."""

    op_domain = ""

    def _run(self, x: Array, approximate: str = "none") -> tuple[Array]:
        if approximate == "tanh":
            gate = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
        else:
            gate = special.erf(x * math.sqrt(0.5)).astype(x.dtype)
        return ((0.5 * x * (1.0 + gate)).astype(x.dtype),)


class GatherElements(OpRun):
    """Elements along an axis; the evaluator's own takes no more than 32 rows, or of a matrix one index a row."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        own = tuple(slice(None) if n == axis % data.ndim else slice(size) for n, size in enumerate(indices.shape))
        return (np.take_along_axis(data[own], indices, axis),)


OPERATORS: tuple[type[OpRun], ...] = (Erf, Gelu, GatherElements)
