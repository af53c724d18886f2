"""Initialisation that leaves no parameter where a wrong graph could hide behind it.

A scale of 1 and a bias of 0 make a graph that lost them, or swapped two norms, look right. All draws
come from the current torch generator: seed first.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from ffn_export.modules.norms import OffsetRMSNorm

ModuleT = TypeVar("ModuleT", bound=nn.Module)

# Wide enough to be seen in any comparison, narrow enough that no scale comes near zero.
_SPREAD = 0.1


@torch.no_grad()
def randomise_norms(module: ModuleT) -> ModuleT:
    """Draw the parameters of all LayerNorm and RMSNorm modules inside, in place.

    Scales become 1 + 0.1 normal (the weight of ``OffsetRMSNorm`` 0.1 normal, since it adds the 1
    itself), biases 0.1 normal. The module is otherwise left as it is.

    Returns:
        The same module.
    """
    for norm in module.modules():
        if not isinstance(norm, (nn.LayerNorm, nn.RMSNorm)) or norm.weight is None:
            continue
        norm.weight.normal_(mean=0.0 if isinstance(norm, OffsetRMSNorm) else 1.0, std=_SPREAD)
        if isinstance(norm, nn.LayerNorm) and norm.bias is not None:
            norm.bias.normal_(mean=0.0, std=_SPREAD)
    return module


@torch.no_grad()
def small_normal_(module: ModuleT, std: float = 0.01) -> ModuleT:
    """Draw all linear weights as std * normal and set their biases to zero, in place.

    Source: the NumPy feed-forward of Tutorialspoint's Generative AI tutorial, where std is 0.01.

    Returns:
        The same module.
    """
    for linear in module.modules():
        if isinstance(linear, nn.Linear):
            linear.weight.normal_(mean=0.0, std=std)
            if linear.bias is not None:
                linear.bias.zero_()
    return module
