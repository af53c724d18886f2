"""Run a module with ONNX Runtime's arithmetic where PyTorch's is more accurate, to measure the error of the former.

Sums: PyTorch adds long ones in pairs of parts. If a sum is not over the last axis, as when a long sequence is pooled,
ONNX Runtime adds the rows of the tensor one after the other. The error of n additions in order grows as sqrt(n), that
in pairs as sqrt(log n) (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis").

Functions that are small where their terms are not: ONNX has no ``Expm1``, ``Log1p`` and ``Erfc``, so a graph computes
``exp(x) - 1``, ``log(1 + x)`` and ``1 - erf(x)``, and ONNX Runtime's kernels of ``Elu``, ``Selu`` and ``Celu`` do, too.
The difference has few correct digits, or none: ``Elu`` of -1e-8 is 0.

Sigmoid: ONNX Runtime's kernel is a quotient of polynomials plus a half. It is off by up to 1.7e-7, which is much of a
small probability: 2,500 units in the last place at -8, and all of it from -18 on, where the result is 0. ``silu``,
``glu`` and ``sigmoid`` are computed as that kernel does, with fused multiply and add, so the error is the same number.
Tanh is such a quotient, too: off by up to 2.6e-7, which is all of ``x - tanh(x)`` near 0.

Fourier transforms: :mod:`fourier_arithmetic`.

Neither is wrong, so the error is measured: on the module itself, whose other operators stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ffn_export.core.strict import expose_own
from ffn_export.core.types import Array
from ffn_export.exporter.dispatch import OperatorMode
from ffn_export.exporter.outputs import tensors_of
from ffn_export.exporter.source import Source
from ffn_export.exporter.torch_inputs import to_torch
from ffn_export.parity.reference.fourier_arithmetic import TRANSFORMS
from ffn_export.runtimes.torch_eager import to_numpy

_aten = torch.ops.aten
_SINGLE = (torch.float32, torch.complex64)
# Sums of fewer rows have errors below those of any other operator.
LONG = 64


class _AsRuntime(OperatorMode):  # type: ignore[no-untyped-call]  # torch leaves its base untyped
    """Replaces coarse functions in single precision, and sums, means and variances over other axes than the last.

    Attributes:
        found: Whether an operator was replaced.
    """

    def __init__(self, *, sums: bool) -> None:
        super().__init__()
        self.found = False
        self._sums = sums

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator, as ONNX Runtime would if it is known to differ."""
        coarse = _COARSE.get(func)
        if coarse is not None and args[0].dtype in _SINGLE:
            self.found = True
            return coarse(*args, **kwargs)
        sum_in_order = _SUMS.get(func) if self._sums else None
        axes = None if sum_in_order is None else _axes(*args[:2])
        if sum_in_order is None or axes is None:
            return func(*args, **kwargs)
        self.found = True
        correction = kwargs.get("correction")
        keeps = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
        return sum_in_order(args[0], axes, keeps, 1 if correction is None else correction)


def _elu(x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """ELU and SELU with a difference in place of ``expm1``."""
    return scale * torch.where(x > 0, x, alpha * ((input_scale * x).exp() - 1))


def _sigmoid(x: Tensor) -> Tensor:
    """Sigmoid as ONNX Runtime's kernel, ``MlasComputeLogistic``, computes it."""
    x = x.clamp(-18, 18)
    above, below = (_polynomial(x * x, numbers) for numbers in (_ABOVE, _BELOW))
    return (x * above / below + 0.5).clamp(0, 1)


def _tanh(x: Tensor) -> Tensor:
    """Tanh as ONNX Runtime's kernel, ``MlasComputeTanh``, computes it."""
    x = x.clamp(-9, 9)
    above, below = (_polynomial(x * x, numbers) for numbers in (_ABOVE_TANH, _BELOW_TANH))
    return x * above / below


def _polynomial(x: Tensor, numbers: Sequence[float]) -> Tensor:
    """Evaluate a polynomial in float32, highest power first, and round once for each product and sum."""
    value = torch.full_like(x, numbers[0])
    for number in torch.tensor(numbers[1:]).double():
        value = (value.double() * x.double() + number).float()
    return value


def _glu(x: Tensor, dim: int = -1) -> Tensor:
    value, gate = x.chunk(2, dim)
    return value * _sigmoid(gate)


def _axes(x: Any, dim: Any = None) -> list[int] | None:
    """Return the axes of a sum of float32 that leaves the last axis, or None for any other."""
    if not isinstance(x, Tensor) or x.dtype is not torch.float32 or dim is None or x.ndim < 2:
        return None
    axes = [axis % x.ndim for axis in ([dim] if isinstance(dim, int) else dim)]
    return axes if axes and x.ndim - 1 not in axes else None


def _sum(x: Tensor, axes: Sequence[int], keeps: bool) -> Tensor:
    rows = x.movedim(list(axes), list(range(len(axes)))).flatten(0, len(axes) - 1)
    total = x.new_zeros(rows.shape[1:])
    for row in rows:
        total += row
    return total.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)]) if keeps else total


def _mean(x: Tensor, axes: Sequence[int], keeps: bool) -> Tensor:
    return _sum(x, axes, keeps) / _count(x, axes)


def _variance(x: Tensor, axes: Sequence[int], keeps: bool, correction: float) -> Tensor:
    squares = (x - _mean(x, axes, keeps=True)) ** 2
    return _sum(squares, axes, keeps) / max(_count(x, axes) - correction, 0)


def _count(x: Tensor, axes: Sequence[int]) -> int:
    return math.prod(x.shape[axis] for axis in axes)


# Numerators and denominators of the kernels, in powers of the square of the argument, highest first: of Sigmoid,
_ABOVE = (4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05, 8.51377133304701e-03, 2.48287947061529e-01)
_BELOW = (
    *(6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06),
    *(1.70198817374094e-03, 1.16817656904453e-01, 9.93151921023180e-01),
)
# and of Tanh.
_ABOVE_TANH = (
    *(-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08),
    *(1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03),
)
_BELOW_TANH = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
_SUMS: Mapping[Any, Callable[..., Tensor]] = {
    _aten.sum.dim_IntList: lambda x, axes, keeps, _: _sum(x, axes, keeps),
    _aten.mean.dim: lambda x, axes, keeps, _: _mean(x, axes, keeps),
    _aten.var.correction: _variance,
}
_COARSE: Mapping[Any, Callable[..., Tensor]] = {
    _aten.elu.default: _elu,
    _aten.celu.default: lambda x, alpha=1.0: _elu(x, alpha, 1.0, 1 / alpha),
    _aten.expm1.default: lambda x: x.exp() - 1,
    _aten.log1p.default: lambda x: (x + 1).log(),
    _aten.erfc.default: lambda x: 1 - x.erf(),
    _aten.sigmoid.default: _sigmoid,
    _aten.sigmoid_.default: lambda x: x.copy_(_sigmoid(x)),
    _aten.silu.default: lambda x: x * _sigmoid(x),
    _aten.silu_.default: lambda x: x.copy_(x * _sigmoid(x)),
    _aten.glu.default: _glu,
    _aten.tanh.default: _tanh,
    _aten.tanh_.default: lambda x: x.copy_(_tanh(x)),
    **TRANSFORMS,
}


class RuntimeArithmetic:
    """Runs a module with the arithmetic of ONNX Runtime, unless an earlier run replaced no operator."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._differs = {False: True, True: True}  # with sums in order or without -> whether it may differ

    def run(self, feeds: Mapping[str, Array]) -> list[Array] | None:
        """Return the outputs, or None if no operator is replaced; sums are only where an axis is long."""
        sums = max((size for array in feeds.values() for size in array.shape), default=0) >= LONG
        if not self._differs[sums]:
            return None
        args, kwargs = self._source.call.arguments(to_torch(feeds))
        mode = _AsRuntime(sums=sums)
        try:
            with torch.no_grad():
                result = mode.watch(lambda: self._source.module(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - a user's module may raise anything under a mode; it ran without one
            expose_own(error)
            mode.found = False
        self._differs[sums] = mode.found
        return [to_numpy(tensor) for tensor in tensors_of(result)] if mode.found else None
