"""Run a module in evaluation mode and restore its state; copy a module."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator

import torch
from torch.nn.parameter import is_lazy


@contextlib.contextmanager
def evaluation_mode(module: torch.nn.Module) -> Iterator[None]:
    """Put a module and its submodules into evaluation mode, and restore modes and buffers afterwards.

    Export refuses a module that counts its calls or fills a cache, but it has run the module by then.
    """
    training = [m for m in module.modules() if m.training]
    buffers = [_Buffer(m, name, tensor) for m in module.modules() for name, tensor in m._buffers.items()]
    for submodule in training:
        submodule.training = False
    try:
        yield
    finally:
        for submodule in training:
            submodule.training = True
        for buffer in buffers:
            buffer.restore()


class _Buffer:
    def __init__(self, owner: torch.nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        self._owner, self._name, self._tensor = owner, name, tensor
        # A lazy buffer has no values yet. An inference-mode tensor cannot be written to and counts no versions.
        self._has_values = tensor is not None and not is_lazy(tensor) and not tensor.is_inference()
        if tensor is not None and self._has_values:
            self._version, self._values = tensor._version, tensor.detach().clone()

    def restore(self) -> None:
        """Restore the buffer if ``forward`` replaced it, and its values if ``forward`` wrote to it."""
        if self._tensor is not None and is_lazy(self._tensor):
            return  # the run has materialised it, which is meant to last
        if self._name not in self._owner._buffers or self._owner._buffers[self._name] is not self._tensor:
            self._owner._buffers[self._name] = self._tensor
        if self._tensor is not None and self._has_values and self._tensor._version != self._version:
            with torch.no_grad():
                self._tensor.copy_(self._values)


def copied(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy of a module that shares no tensor with it.

    A computed tensor that the module keeps, such as the weight of ``torch.nn.utils.weight_norm``, is copied without its
    autograd graph, which ``copy.deepcopy`` refuses.
    """
    kept = (t for m in module.modules() for t in vars(m).values() if isinstance(t, torch.Tensor) and not t.is_leaf)
    return copy.deepcopy(module, {id(tensor): tensor.detach().clone() for tensor in kept})
