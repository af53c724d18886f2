"""Tensors that a module or its exporter computes from the parameters before use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

_Linear = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
# Endings of what the hooks of weight norm, spectral norm and pruning keep.
_HOOKED = ("orig", "g", "v", "u", "mask")
_BatchNorm = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@torch.no_grad()
def computed(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that a module computes itself: by ``torch.nn.utils.parametrizations``, pruning and hooks."""
    for path, each in module.named_modules():
        for name in each.parametrizations if is_parametrized(each) else ():
            yield _joined(path, name), getattr(each, name)
        for name, value in vars(each).items():
            if isinstance(value, Tensor) and value.layout is torch.strided and not value.is_meta:
                yield _joined(path, name), value


def ingredients(module: nn.Module, names: Iterable[str] | None = None) -> set[str]:
    """Return the names of the parameters and buffers that :func:`computed` derives tensors from.

    Args:
        module: The module.
        names: Names of the derived tensors; None means all of them.
    """
    own = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
    found = set()
    derived = (dict(computed(module)).keys() if names is None else set(names)) - own
    for path, _, name in (each.rpartition(".") for each in derived):
        of_parametrisation = _joined(path, f"parametrizations.{name}.")
        of_hook = {_joined(path, f"{name}_{suffix}") for suffix in _HOOKED}
        found |= {each for each in own if each.startswith(of_parametrisation) or each in of_hook}
    return found


@torch.no_grad()
def folded(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield weight and bias of a linear layer or convolution with the next batch norm folded, as torch's exporter does.

    In evaluation a batch norm multiplies by ``weight / sqrt(running_var + eps)``; source: ``torch.nn.BatchNorm1d``.
    """
    leaves = [(path, each) for path, each in module.named_modules() if not any(each.children())]
    for (path, linear), (behind, norm) in pairwise(leaves):
        if not isinstance(linear, _Linear) or not isinstance(norm, _BatchNorm):
            continue
        if norm.running_var is None or norm.running_mean is None or len(linear.weight) != norm.num_features:
            continue
        scale = torch.rsqrt(norm.running_var.double() + norm.eps)
        scale = scale if norm.weight is None else scale * norm.weight
        shift = -norm.running_mean * scale if linear.bias is None else (linear.bias - norm.running_mean) * scale
        shift = shift if norm.bias is None else shift + norm.bias
        weight = linear.weight * scale.reshape(-1, *[1] * (linear.weight.ndim - 1))
        yield f"{_joined(path, 'weight')} with {behind}", weight.to(linear.weight.dtype)
        yield f"{_joined(path, 'bias')} with {behind}", shift.to(linear.weight.dtype)


def _joined(path: str, name: str) -> str:
    return ".".join(filter(None, (path, name)))
