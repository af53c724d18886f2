"""Run a module in evaluation mode and restore its state; tell whether a run changes it; copy a module."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping

import torch
from torch.nn.parameter import is_lazy


@contextlib.contextmanager
def evaluation_mode(module: torch.nn.Module) -> Iterator[None]:
    """Put a module and its submodules into evaluation mode, and restore modes and buffers afterwards.

    Export refuses a module that counts its calls or fills a cache, but it has run the module by then.
    """
    training = [m for m in module.modules() if m.training]
    buffers = _buffers(module)
    for submodule in training:
        submodule.training = False
    try:
        yield
    finally:
        for submodule in training:
            submodule.training = True
        for buffer in buffers:
            buffer.restore()


def changed_buffer(module: torch.nn.Module, run: Callable[[], object]) -> str | None:
    """Return the name of the first buffer that a run leaves with other values, or None.

    Args:
        module: The module, which has run before: what it keeps from its first call is no change of each call.
        run: Calls the module once.
    """
    before = _buffers(module)
    run()
    paths = {id(submodule): path for path, submodule in module.named_modules()}
    return next((buffer.path(paths) for buffer in before if buffer.has_other_values()), None)


def _buffers(module: torch.nn.Module) -> list[_Buffer]:
    return [_Buffer(m, name, tensor) for m in module.modules() for name, tensor in m._buffers.items()]


def _bits(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the bytes of a tensor, in which NaN equals itself; None for one that has none or is not dense."""
    if tensor.is_meta or tensor.is_quantized or tensor.layout is not torch.strided:
        return None
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


class _Buffer:
    def __init__(self, owner: torch.nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        self._owner, self._name, self._tensor = owner, name, tensor
        # A lazy buffer has no values yet. An inference-mode tensor cannot be written to and counts no versions.
        self._has_values = tensor is not None and not is_lazy(tensor) and not tensor.is_inference()
        if tensor is not None and self._has_values:
            self._version, self._values = tensor._version, tensor.detach().clone()

    def path(self, paths: Mapping[int, str]) -> str:
        """Return the name of the buffer in a module whose submodules have these paths."""
        return ".".join(filter(None, (paths[id(self._owner)], self._name)))

    def has_other_values(self) -> bool:
        """Return whether ``forward`` wrote other values to the buffer, or replaced it by a tensor of others."""
        now = self._owner._buffers.get(self._name)
        if not self._has_values or (now is not None and now is self._tensor and self._version == now._version):
            return False
        if now is None or now.shape != self._values.shape or now.dtype != self._values.dtype:
            return True
        before, after = _bits(self._values), _bits(now)
        return before is not None and after is not None and not torch.equal(before, after)

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
