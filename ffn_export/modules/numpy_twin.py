"""The reference modules in NumPy float64, written from their formulas.

An independent oracle: it shares no code with the torch modules and does not import torch. Inputs are
promoted to float64. Linear weights are [out, in], as in PyTorch; ``weight_1`` and ``bias_1`` belong to
W1. Dropout is omitted, as in eval mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from ffn_export.core.activations import TABLE, Function, to_float64
from ffn_export.core.activations import FloatArray as FloatArray
from ffn_export.core.activations import relu as relu
from ffn_export.core.activations import silu as silu

ACTIVATIONS: Mapping[str, Function] = MappingProxyType(
    {name: activation.numpy for name, activation in TABLE.items() if activation.numpy is not None}
)


def linear(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None) -> FloatArray:
    """Return x W^T + b: [..., in] to [..., out], with weight [out, in] and bias [out]."""
    y: FloatArray = np.matmul(to_float64(x), to_float64(weight).T)
    return y if bias is None else y + to_float64(bias)


def conv1(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None) -> FloatArray:
    """Return a convolution of kernel size 1: [batch, in, seq] to [batch, out, seq], weight [out, in, 1]."""
    y: FloatArray = np.einsum("bis,oi->bos", to_float64(x), to_float64(weight)[:, :, 0])
    return y if bias is None else y + to_float64(bias)[:, np.newaxis]


def _trailing_axes(x: FloatArray, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    widths = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not widths or x.shape[-len(widths) :] != widths:
        raise ValueError(f"the trailing dimensions must be {widths}, got shape {x.shape}")
    return tuple(range(-len(widths), 0))


def layer_norm(
    x: ArrayLike,
    normalized_shape: int | Sequence[int],
    weight: ArrayLike = 1.0,
    bias: ArrayLike = 0.0,
    *,
    eps: float = 1e-5,
) -> FloatArray:
    """Return (x - mean) / sqrt(variance + eps) * weight + bias over the trailing dimensions; Ba et al. 2016.

    The variance is the population variance (divided by n), computed around the mean in a second pass.
    """
    x = to_float64(x)
    axes = _trailing_axes(x, normalized_shape)
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = np.square(centred).mean(axis=axes, keepdims=True)
    normalised: FloatArray = centred / np.sqrt(variance + eps)
    return normalised * to_float64(weight) + to_float64(bias)


def rms_norm(
    x: ArrayLike,
    normalized_shape: int | Sequence[int],
    weight: ArrayLike = 1.0,
    *,
    eps: float = 1e-6,
    offset: float = 0.0,
) -> FloatArray:
    """Return x / sqrt(mean(x^2) + eps) * (offset + weight); Zhang and Sennrich 2019, Gemma with offset 1."""
    x = to_float64(x)
    mean_square = np.square(x).mean(axis=_trailing_axes(x, normalized_shape), keepdims=True)
    normalised: FloatArray = x / np.sqrt(mean_square + eps)
    return normalised * (offset + to_float64(weight))


def feed_forward(
    x: ArrayLike,
    weight_1: ArrayLike,
    bias_1: ArrayLike | None,
    weight_2: ArrayLike,
    bias_2: ArrayLike | None,
    *,
    activation: Function = relu,
) -> FloatArray:
    """Return act(x W1 + b1) W2 + b2 over [..., d_model]; Vaswani et al. 2017, equation 2."""
    return linear(activation(linear(x, weight_1, bias_1)), weight_2, bias_2)


def gated_feed_forward(
    x: ArrayLike,
    gate: ArrayLike,
    up: ArrayLike,
    down: ArrayLike,
    *,
    gate_bias: ArrayLike | None = None,
    up_bias: ArrayLike | None = None,
    down_bias: ArrayLike | None = None,
    activation: Function = silu,
) -> FloatArray:
    """Return down(act(gate(x)) * up(x)) over [..., d_model]; Shazeer 2020."""
    return linear(activation(linear(x, gate, gate_bias)) * linear(x, up, up_bias), down, down_bias)


def packed_gated_feed_forward(
    x: ArrayLike,
    gate_up: ArrayLike,
    down: ArrayLike,
    *,
    gate_up_bias: ArrayLike | None = None,
    down_bias: ArrayLike | None = None,
    activation: Function = silu,
) -> FloatArray:
    """Return the gated feed-forward with one projection [2 * d_ff, d_model], gate first."""
    both = linear(x, gate_up, gate_up_bias)
    d_ff = both.shape[-1] // 2
    return linear(activation(both[..., :d_ff]) * both[..., d_ff:], down, down_bias)


def conv_feed_forward(
    x: ArrayLike,
    weight_1: ArrayLike,
    bias_1: ArrayLike | None,
    weight_2: ArrayLike,
    bias_2: ArrayLike | None,
    *,
    activation: Function = relu,
) -> FloatArray:
    """Return the feed-forward as two kernel-1 convolutions over [batch, seq, d_model], weights [out, in, 1]."""
    inner = activation(conv1(np.swapaxes(to_float64(x), 1, 2), weight_1, bias_1))
    return np.swapaxes(conv1(inner, weight_2, bias_2), 1, 2)


def add_norm(x: ArrayLike, sublayer: ArrayLike, norm: Function) -> FloatArray:
    """Return norm(x + sublayer) of two arrays of one shape."""
    x, sublayer = to_float64(x), to_float64(sublayer)
    if x.shape != sublayer.shape:
        raise ValueError(f"add_norm needs two arrays of one shape, got {x.shape} and {sublayer.shape}")
    return norm(x + sublayer)


def block(
    x: ArrayLike, feed_forward: Function, norm: Function | None = None, norm_position: str = "none"
) -> FloatArray:
    """Return x + ffn(norm(x)) for ``pre``, norm(x + ffn(x)) for ``post``, x + ffn(x) for ``none``."""
    if norm_position not in ("pre", "post", "none") or (norm is None) != (norm_position == "none"):
        raise ValueError(f"norm_position {norm_position!r} does not go with norm {norm!r}")
    x = to_float64(x)
    branch = feed_forward(norm(x)) if norm is not None and norm_position == "pre" else feed_forward(x)
    total = x + branch
    return norm(total) if norm is not None and norm_position == "post" else total
