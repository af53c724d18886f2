"""Kinds of values that inputs are drawn as.

An ill-conditioned kind has rows on which a norm loses digits in any implementation. LayerNorm maps a row ``x`` to
``(x - mean) / sqrt(var + epsilon)``. Rounding ``x`` to a dtype of unit roundoff ``u`` moves the result by up to
``u * max|x| / sqrt(var + epsilon)``: ``u`` times the condition number of the row (for the variance: Chan, Golub and
LeVeque 1983, "Algorithms for computing the sample variance").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ffn_export.core.drawing import float_info
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array

HALFWAY = "eighths"
"""Kind of values for graphs that round; no case of the sweep has it."""


@dataclass(frozen=True)
class Values:
    """One kind of values.

    Attributes:
        make: Function of standard normal values and the input's spec that returns values of this kind, in the same
            dtype.
        ill_conditioned: Whether the bound includes the conditioning.
        of_integers: Whether integers that are no masks have this kind of values, too.
    """

    make: Callable[[Array, TensorSpec], Array]
    ill_conditioned: bool = False
    of_integers: bool = False

    def applies(self, spec: TensorSpec) -> bool:
        """Whether an input can have this kind of values."""
        return spec.is_floating or (self.of_integers and not spec.is_mask and spec.dtype != "bool")


def _offset(x: Array, _: TensorSpec) -> Array:
    """Rows with a mean of 1,000 times their spread; less in a dtype where the spread would be below 16 ULP."""
    mean = min(1000.0, 1 / (16 * float(float_info(x.dtype).eps)))
    moved: Array = (x.astype(np.float64) + mean).astype(x.dtype)
    return moved


def _constant(x: Array, spec: TensorSpec) -> Array:
    """Rows of one value each, along the axes after the last symbolic one, or along the last axis.

    The values are multiples of 1/4, so their sums and sums of squares are exact in any order. Other values are rounded
    the same way at every step of a sum, and the error grows with the width: 48 ULP for onnxruntime's RMSNormalization
    of 4,096 elements, which tells nothing about the graph.
    """
    first = max(max(spec.symbolic, default=x.ndim - 2) + 1, 0)
    one = x[(slice(None),) * first + (slice(0, 1),) * (x.ndim - first)]
    quarters = np.copysign(np.ceil(np.abs(one.astype(np.float64)) * 4) / 4, one.astype(np.float64))
    return np.broadcast_to(quarters, x.shape).astype(x.dtype)


def _repeated(x: Array, spec: TensorSpec) -> Array:
    """Sequences of one token each: equal along the last symbolic axis."""
    axis = max(spec.symbolic, default=None)
    return x if axis is None else np.broadcast_to(x.take([0] if x.shape[axis] else [], axis), x.shape).copy()


def _eighths(x: Array, _: TensorSpec) -> Array:
    """Multiples of 1/8. Scaled by a power of two, many of them lie halfway between two integers."""
    rounded: Array = (np.round(x.astype(np.float64) * 8) / 8).astype(x.dtype)
    return rounded


def _tiny(x: Array, _: TensorSpec) -> Array:
    """Values far below the root of every epsilon and above the smallest normal number: 1e-12, or 5e-4 in float16."""
    scaled: Array = (x.astype(np.float64) * max(1e-12, 8 * float(float_info(x.dtype).smallest_normal))).astype(x.dtype)
    return scaled


def _denormal(x: Array, _: TensorSpec) -> Array:
    """Values below the smallest normal number of the dtype: about 1e-39 in float32 and bfloat16, 8e-6 in float16."""
    scaled: Array = (x.astype(np.float64) * (float(float_info(x.dtype).smallest_normal) / 8)).astype(x.dtype)
    return scaled


def _outliers(x: Array, _: TensorSpec) -> Array:
    """One element in 64 is 100 times as large as the others, as in the activations of large models.

    Source: Dettmers et al. 2022, "LLM.int8(): 8-bit matrix multiplication for transformers at scale", section 4.
    """
    wild: Array = x.copy()
    wild.reshape(-1)[::64] *= x.dtype.type(100)
    return wild


def _spoiled_in_parts(x: Array, *numbers: float) -> Array:
    """Overwrite one element of every second token, numbers in turn, moving from the first feature to the last."""
    spoiled = x.copy()
    if spoiled.size and spoiled.ndim:
        tokens = spoiled.reshape(-1, spoiled.shape[-1])
        width, chosen = tokens.shape[1], range(0, len(tokens), 2)
        for index, token in enumerate(chosen):
            tokens[token, index * (width - 1) // max(len(chosen) - 1, 1)] = numbers[index % len(numbers)]
    return spoiled


def _spoiled(x: Array, *numbers: float) -> Array:
    """Overwrite one element of the last token, and with a second number one of the token before."""
    spoiled = x.copy()
    if spoiled.size:
        tokens = spoiled.reshape(-1, spoiled.shape[-1]) if spoiled.ndim else spoiled.reshape(1, 1)
        for token, number in zip(tokens[::-1], numbers, strict=False):
            token[0] = number
    return spoiled


VALUES: Mapping[str, Values] = {
    "normal": Values(lambda x, _: x),
    # The variance of 1e-6 is below every usual epsilon of a norm, so a wrong epsilon shows.
    "small": Values(lambda x, _: x * x.dtype.type(1e-3), ill_conditioned=True),
    # Scores of attention grow 900 times, and a softmax of large numbers turns one rounding into many.
    "large": Values(lambda x, _: x * x.dtype.type(30), ill_conditioned=True),
    # A sum in order adds each number of the row to one 100 times as large, so its rounding errors show.
    "outliers": Values(_outliers, ill_conditioned=True),
    "offset": Values(_offset, ill_conditioned=True),
    "constant": Values(_constant, ill_conditioned=True),
    "tiny": Values(_tiny, ill_conditioned=True),
    "denormal": Values(_denormal, ill_conditioned=True),
    HALFWAY: Values(_eighths),
    "repeated": Values(_repeated, ill_conditioned=True, of_integers=True),
    "zeros": Values(lambda x, _: np.zeros_like(x), ill_conditioned=True),
    # Tokens other than the last become NaN only if they depend on it.
    "nan": Values(lambda x, _: _spoiled(x, np.nan)),
    "nan in parts": Values(lambda x, _: _spoiled_in_parts(x, np.nan)),
    "infinite": Values(lambda x, _: _spoiled(x, np.inf, -np.inf)),
    "infinite in parts": Values(lambda x, _: _spoiled_in_parts(x, np.inf, -np.inf)),
}
