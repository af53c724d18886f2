"""Initialise parameters so that a wrong graph computes something else.

With scales of 1 and biases of 0, a graph that lost them or swapped two norms looks right. All draws
use the current torch generator: seed it first.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from ffn_export.modules.norms import OffsetRMSNorm

ModuleT = TypeVar("ModuleT", bound=nn.Module)

# Large enough to show in any comparison, small enough to keep scales away from zero.
_SPREAD = 0.1


@torch.no_grad()
def randomise_norms(module: ModuleT) -> ModuleT:
    """Draw the parameters of all LayerNorm and RMSNorm submodules, in place.

    Scales become 1 + 0.1 * normal, biases 0.1 * normal. The weight of ``OffsetRMSNorm`` becomes
    0.1 * normal, since the module adds the 1. Other parameters do not change.

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
