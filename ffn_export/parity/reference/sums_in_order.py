"""Run a module with sums over tokens added in order, to measure the error that this order costs.

PyTorch adds long sums in pairs of parts. ONNX Runtime adds the rows of a tensor one after the other where a sum is not
over the last axis, as when a long sequence is pooled. The error of n additions in order grows as sqrt(n), that in pairs
as sqrt(log n) (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis"). Neither order is
wrong, so the error in order is measured, too: on the module itself, whose other operators stay as they are.
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
from ffn_export.runtimes.torch_eager import to_numpy

_aten = torch.ops.aten
# Sums of fewer rows have errors below those of any other operator.
LONG = 64


class _InOrder(OperatorMode):  # type: ignore[no-untyped-call]  # torch leaves its base untyped
    """Replaces sums, means and variances over other axes than the last.

    Attributes:
        found: Whether an operator was replaced.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator, in order if it is a sum."""
        replacement = _REPLACEMENTS.get(func)
        axes = None if replacement is None else _axes(*args[:2])
        if replacement is None or axes is None:
            return func(*args, **kwargs)
        self.found = True
        correction = kwargs.get("correction")
        keeps = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
        return replacement(args[0], axes, keeps, 1 if correction is None else correction)


def _axes(x: Any, dim: Any = None) -> list[int] | None:
    """Return the axes of a sum of float32 that leaves the last axis, or None for any other."""
    if not isinstance(x, Tensor) or x.dtype is not torch.float32 or dim is None or x.ndim < 2:
        return None
    axes = [axis % x.ndim for axis in ([dim] if isinstance(dim, int) else dim)]
    return axes if axes and x.ndim - 1 not in axes else None


def _sum(x: Tensor, axes: Sequence[int], keeps: bool, correction: float = 0) -> Tensor:
    del correction
    rows = x.movedim(list(axes), list(range(len(axes)))).flatten(0, len(axes) - 1)
    total = x.new_zeros(rows.shape[1:])
    for row in rows:
        total += row
    return total.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)]) if keeps else total


def _mean(x: Tensor, axes: Sequence[int], keeps: bool, correction: float = 0) -> Tensor:
    del correction
    return _sum(x, axes, keeps) / _count(x, axes)


def _variance(x: Tensor, axes: Sequence[int], keeps: bool, correction: float) -> Tensor:
    squares = (x - _mean(x, axes, keeps=True)) ** 2
    return _sum(squares, axes, keeps) / max(_count(x, axes) - correction, 0)


def _count(x: Tensor, axes: Sequence[int]) -> int:
    return math.prod(x.shape[axis] for axis in axes)


_REPLACEMENTS: Mapping[Any, Callable[..., Tensor]] = {
    _aten.sum.dim_IntList: _sum,
    _aten.mean.dim: _mean,
    _aten.var.correction: _variance,
}


class SumsInOrder:
    """Runs a module with its sums in order, unless a first run shows that it has none."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._has_sums = True

    def run(self, feeds: Mapping[str, Array]) -> list[Array] | None:
        """Return the outputs in order, or None if no sum of the module is long and over another axis than the last."""
        longest = max((size for array in feeds.values() for size in array.shape), default=0)
        if longest < LONG or not self._has_sums:
            return None
        args, kwargs = self._source.call.arguments(to_torch(feeds))
        mode = _InOrder()
        try:
            with torch.no_grad():
                result = mode.watch(lambda: self._source.module(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - a user's module may raise anything under a mode; it ran without one
            expose_own(error)
            mode.found = False
        self._has_sums = mode.found
        return [to_numpy(tensor) for tensor in tensors_of(result)] if mode.found else None
