"""The truth: a module evaluated in float64, whatever dtypes it names inside."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ffn_export.exporter.drawing import Array
from ffn_export.exporter.outputs import tensors_of
from ffn_export.exporter.source import Source
from ffn_export.exporter.torch_inputs import to_torch

_WORKING = frozenset({torch.float32, torch.float16, torch.bfloat16})


class _InFloat64(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Turns every request for a working float dtype into float64.

    A module may cast inside ``forward`` (norms often do, to float32); ``module.double()`` does not
    reach those casts, and the oracle would carry float32's rounding.
    """

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") in _WORKING:
            kwargs["dtype"] = torch.float64
        return func(*args, **kwargs)


class TorchOracle:
    """A float64 copy of a source's module."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.module = copy.deepcopy(source.module).double()

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the outputs in order, floating-point ones in float64."""
        tensors = {
            name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in to_torch(feeds).items()
        }
        args, kwargs = self.source.call.arguments(tensors)
        with torch.no_grad(), _InFloat64():  # type: ignore[no-untyped-call]
            result = self.module(*args, **kwargs)
        return [tensor.detach().cpu().numpy() for tensor in tensors_of(result)]
