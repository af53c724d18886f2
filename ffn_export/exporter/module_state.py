"""The state that a module is run in, and put back to; and copies of it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator

import torch
from torch.nn.parameter import is_lazy


@contextlib.contextmanager
def evaluation_mode(module: torch.nn.Module) -> Iterator[None]:
    """Put a module and all its submodules into evaluation mode, and each back afterwards, with its buffers.

    A module that counts its calls or fills a cache is refused when it is exported, but has been run by then.
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
    """A buffer as it is now."""

    def __init__(self, owner: torch.nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        self._owner, self._name, self._tensor = owner, name, tensor
        # One that is lazy has no values yet; one of inference mode cannot be written to, and counts no versions.
        self._has_values = tensor is not None and not is_lazy(tensor) and not tensor.is_inference()
        if tensor is not None and self._has_values:
            self._version, self._values = tensor._version, tensor.detach().clone()

    def restore(self) -> None:
        """Put it back where forward has put another, and its values where forward has written to it."""
        if self._tensor is not None and is_lazy(self._tensor):
            return  # it has become what it was to be
        if self._name not in self._owner._buffers or self._owner._buffers[self._name] is not self._tensor:
            self._owner._buffers[self._name] = self._tensor
        if self._tensor is not None and self._has_values and self._tensor._version != self._version:
            with torch.no_grad():
                self._tensor.copy_(self._values)


def copied(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy of a module that shares no tensor with it.

    A tensor that it computed and kept, such as the weight of ``torch.nn.utils.weight_norm``, is copied without the
    graph of its gradient, which ``copy.deepcopy`` refuses.
    """
    kept = (t for m in module.modules() for t in vars(m).values() if isinstance(t, torch.Tensor) and not t.is_leaf)
    return copy.deepcopy(module, {id(tensor): tensor.detach().clone() for tensor in kept})
