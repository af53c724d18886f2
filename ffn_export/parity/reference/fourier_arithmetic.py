"""Compute Fourier transforms as ONNX Runtime's kernel of ``DFT`` does, whose error grows with the number of terms.

A size that is no power of two is computed by Bluestein's algorithm. The kernel evaluates its factors
``exp(-i pi k^2 / n)`` in float32, where the angle of 600 turns has four correct digits: the hidden size 768 of FNet is
off by 700 units in the last place, which is the error of these factors. PyTorch's own error is 1 unit.

Source: ``dft_bluestein_z_chirp`` in ``onnxruntime/core/providers/cpu/signal/dft.cc``; Bluestein 1970, "A linear
filtering approach to the computation of discrete Fourier transform".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten
# Codes of ``norm``: the result is divided by nothing, by the root of the number of terms, or by their number.
_POWERS = {0: 0.0, 1: -0.5, 2: -1.0}


def _complex_to_complex(x: Tensor, axes: Sequence[int], norm: int, forward: bool) -> Tensor:
    count: int = math.prod(x.shape[axis] for axis in axes)
    for axis in axes if count else ():
        x = _transform(x.movedim(axis, -1), forward).movedim(-1, axis)
    scaled: Tensor = x * (count ** _POWERS[norm] if count else 1)
    return scaled


def _real_to_complex(x: Tensor, axes: Sequence[int], norm: int, onesided: bool) -> Tensor:
    whole = _complex_to_complex(x.to(torch.complex64), axes, norm, True)
    return whole.narrow(axes[-1], 0, x.shape[axes[-1]] // 2 + 1) if onesided else whole


def _transform(x: Tensor, forward: bool) -> Tensor:
    """Transform the last axis, without a factor."""
    n = x.shape[-1]
    if n & (n - 1) == 0:
        exact: Tensor = torch.fft.fft(x) if forward else torch.fft.ifft(x, norm="forward")
        return exact
    k = torch.arange(n, dtype=torch.float32)
    # Each operation is rounded, in this order.
    angle = torch.tensor(-math.pi if forward else math.pi, dtype=torch.float32) * k * k / n
    factors = torch.polar(torch.ones_like(angle), angle)
    size = 1 << (2 * n - 2).bit_length()
    filters = torch.zeros(size, dtype=x.dtype)
    filters[:n] = factors.conj()
    filters[size - n + 1 :] = filters[1:n].flip(0)
    folded = torch.fft.ifft(torch.fft.fft(x * factors, size) * torch.fft.fft(filters))
    transformed: Tensor = folded[..., :n] * factors
    return transformed


# Operator -> the same as the kernel computes it.
TRANSFORMS: Mapping[Any, Callable[..., Tensor]] = {
    _aten._fft_c2c.default: _complex_to_complex,
    _aten._fft_r2c.default: _real_to_complex,
}
