"""Operators of ``com.microsoft`` for ONNX's reference evaluator, as NumPy formulas.

They are classes, not ONNX functions: most have optional inputs, and all compute half precision in
float32, while a function has fixed inputs and cannot depend on their dtype. Defaults are those of ONNX
Runtime's schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from onnx.reference.op_run import OpRun
from scipy.special import erf, expit

from ffn_export.core.types import Array
from ffn_export.quantization.blocks import dequantized
from ffn_export.runtimes.half_precision import widened

DOMAIN = "com.microsoft"


class _Contrib(OpRun):
    op_domain = DOMAIN
    op_schema: ClassVar[Any] = None  # otherwise the evaluator uses the schema of a standard operator of this name


def erf_gelu(x: Array) -> Array:
    """GELU by its definition, with erf."""
    result: Array = 0.5 * x * (1.0 + erf(x * np.sqrt(0.5).astype(x.dtype)))
    return result


def tanh_gelu(x: Array) -> Array:
    """GELU by its tanh approximation."""
    result: Array = 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi).astype(x.dtype) * (x + 0.044715 * x * x * x)))
    return result


class Gelu(_Contrib):
    """GELU."""

    def _run(self, x: Array) -> tuple[Array]:
        return (erf_gelu(widened(x)).astype(x.dtype),)


class BiasGelu(_Contrib):
    """GELU of a sum."""

    def _run(self, x: Array, bias: Array) -> tuple[Array]:
        return (erf_gelu(widened(x) + widened(bias)).astype(x.dtype),)


class FastGelu(_Contrib):
    """GELU by tanh, of ``x`` or of ``x + bias``."""

    def _run(self, x: Array, bias: Array | None = None) -> tuple[Array]:
        return (tanh_gelu(_sum(x, bias)).astype(x.dtype),)


class QuickGelu(_Contrib):
    """``x * sigmoid(alpha * x)``."""

    def _run(self, x: Array, alpha: float = 1.702) -> tuple[Array]:
        wide = widened(x)
        return ((wide * expit(alpha * wide)).astype(x.dtype),)


class FusedMatMul(_Contrib):
    """A scaled product; ``transBatch`` moves the first axis behind the batch axes, ``trans`` swaps the last two."""

    def _run(
        self,
        a: Array,
        b: Array,
        *,
        alpha: float = 1.0,
        transA: int = 0,  # noqa: N803 - the attributes' names
        transB: int = 0,  # noqa: N803
        transBatchA: int = 0,  # noqa: N803
        transBatchB: int = 0,  # noqa: N803
    ) -> tuple[Array]:
        left = _transposed(widened(a), transA, transBatchA)
        right = _transposed(widened(b), transB, transBatchB)
        return ((alpha * (left @ right)).astype(a.dtype),)


def _transposed(x: Array, matrix: int, batch: int) -> Array:
    if batch:
        x = np.moveaxis(x, 0, -2)
    return np.swapaxes(x, -1, -2) if matrix and x.ndim > 1 else x


ACTIVATIONS: Mapping[str, Callable[[Array, float | None], Array]] = {
    "Relu": lambda x, _: np.maximum(x, 0),
    "LeakyRelu": lambda x, alpha: np.where(x < 0, (0.01 if alpha is None else alpha) * x, x),
    "Tanh": lambda x, _: np.tanh(x),
    "Elu": lambda x, alpha: np.where(x < 0, (1.0 if alpha is None else alpha) * np.expm1(x), x),
    "Sigmoid": lambda x, _: expit(x),
}


class FusedGemm(_Contrib):
    """Gemm and an activation."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        activation = getattr(self, "activation", "none")
        if activation not in ACTIVATIONS:
            raise NotImplementedError(f"FusedGemm with the activation {activation!r}")

    def _run(
        self,
        a: Array,
        b: Array,
        c: Array | None = None,
        *,
        activation: str,
        activation_alpha: float | None = None,
        alpha: float = 1.0,
        beta: float = 1.0,
        transA: int = 0,  # noqa: N803 - the attributes' names
        transB: int = 0,  # noqa: N803
    ) -> tuple[Array]:
        product = alpha * (_transposed(widened(a), transA, 0) @ _transposed(widened(b), transB, 0))
        total = product if c is None else product + beta * widened(c)
        return (ACTIVATIONS[activation](total, activation_alpha).astype(a.dtype),)


class SkipLayerNormalization(_Contrib):
    """LayerNormalization of a sum over the last axis; also returns the statistics and the sum."""

    def _run(
        self,
        x: Array,
        skip: Array,
        gamma: Array,
        beta: Array | None = None,
        bias: Array | None = None,
        epsilon: float = 1e-12,
    ) -> tuple[Array, ...]:
        total = _sum(x, skip, bias)
        mean = total.mean(-1, keepdims=True)
        return _normalised(x, total, mean, gamma, beta, epsilon)


class SkipSimplifiedLayerNormalization(_Contrib):
    """RMSNormalization of a sum over the last axis; the returned mean is 0."""

    def _run(
        self, x: Array, skip: Array, gamma: Array, bias: Array | None = None, epsilon: float = 1e-12
    ) -> tuple[Array, ...]:
        total = _sum(x, skip, bias)
        return _normalised(x, total, np.zeros_like(total[..., :1]), gamma, None, epsilon)


class MatMulIntegerToFloat(_Contrib):
    """A product of integers of 8 bits, in float32."""

    def _run(
        self,
        a: Array,
        b: Array,
        a_scale: Array,
        b_scale: Array,
        a_zero_point: Array | None = None,
        b_zero_point: Array | None = None,
        bias: Array | None = None,
    ) -> tuple[Array]:
        # In float64, which holds the sums: NumPy has no fast product of integers.
        left, right = (
            each.astype(np.float64) - (0 if zero is None else zero.astype(np.float64))
            for each, zero in ((a, a_zero_point), (b, b_zero_point))
        )
        product = (left @ right).astype(np.float32) * (a_scale * b_scale)
        return ((product if bias is None else product + bias).astype(a_scale.dtype),)


class MatMulNBits(_Contrib):
    """A product with a matrix in few bits. Its input is not rounded, which ``accuracy_level`` allows."""

    def _run(
        self,
        a: Array,
        b: Array,
        scales: Array,
        zero_points: Array | None = None,
        g_idx: Array | None = None,
        bias: Array | None = None,
        *,
        K: int,  # noqa: N803 - the attributes' names
        N: int,  # noqa: N803
        bits: int = 4,
        block_size: int,
        accuracy_level: int = 0,
    ) -> tuple[Array]:
        if g_idx is not None:
            raise NotImplementedError("MatMulNBits with groups by index")
        product = widened(a) @ dequantized(b, scales, zero_points, (K, N), bits, block_size)
        return (_sum(product, bias).astype(a.dtype),)


def _sum(first: Array, *others: Array | None) -> Array:
    total = widened(first)
    for other in others:
        if other is not None:
            total = total + widened(other)
    return total


def _normalised(
    x: Array, total: Array, mean: Array, gamma: Array, beta: Array | None, epsilon: float
) -> tuple[Array, ...]:
    centred = total - mean
    inverse = 1.0 / np.sqrt((centred * centred).mean(-1, keepdims=True) + epsilon)
    output = _sum(centred * inverse * widened(gamma), beta)
    return output.astype(x.dtype), mean, inverse, total.astype(x.dtype)


OPERATORS: Mapping[str, type[OpRun]] = {
    operator.__name__: operator
    for operator in (
        Gelu,
        BiasGelu,
        FastGelu,
        QuickGelu,
        FusedMatMul,
        FusedGemm,
        SkipLayerNormalization,
        SkipSimplifiedLayerNormalization,
        MatMulIntegerToFloat,
        MatMulNBits,
    )
}
# Products of what is rounded in the model's own dtype.
QUANTIZED = frozenset({"MatMulIntegerToFloat", "MatMulNBits"})
