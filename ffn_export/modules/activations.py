"""Activations by name, each as an ``nn.Module`` without parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ffn_export.errors import UsageError, did_you_mean


class QuickGELU(nn.Module):
    """GELU through a sigmoid: x * sigmoid(1.702 x).

    Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2; used by CLIP.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to a floating-point tensor of any shape."""
        return x * torch.sigmoid(1.702 * x)


class SquaredReLU(nn.Module):
    """The square of ReLU: max(x, 0)^2.

    Source: So et al. 2021, "Primer: Searching for Efficient Transformers for Language Modeling".
    """

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to a floating-point tensor of any shape."""
        return F.relu(x).square()


def _gelu_tanh() -> nn.Module:
    return nn.GELU(approximate="tanh")


ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = MappingProxyType(
    {
        "relu": nn.ReLU,
        "gelu": nn.GELU,
        "gelu_tanh": _gelu_tanh,
        "quick_gelu": QuickGELU,
        "silu": nn.SiLU,
        "relu2": SquaredReLU,
        "tanh": nn.Tanh,
        "elu": nn.ELU,
        "mish": nn.Mish,
        "hardswish": nn.Hardswish,
        "leaky_relu": nn.LeakyReLU,
    }
)

# Other names of the same functions in Hugging Face configurations (transformers.activations.ACT2FN).
_ALIASES: Mapping[str, str] = MappingProxyType(
    {"gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "silu"}
)


def activation_name(name: str) -> str:
    """Return the registry's name of an activation, given that name or its Hugging Face alias.

    Raises:
        UsageError: No activation has this name.
    """
    known = _ALIASES.get(name, name)
    if known not in ACTIVATIONS:
        raise UsageError(
            f"unknown activation {name!r}:{did_you_mean(name, ACTIVATIONS)} known: {', '.join(ACTIVATIONS)}"
        )
    return known


def make_activation(name: str) -> nn.Module:
    """Return a new activation module; it maps any shape to the same shape and dtype.

    Args:
        name: A key of ``ACTIVATIONS``, or its alias in Hugging Face configurations (``gelu_new``).

    Raises:
        UsageError: No activation has this name.
    """
    return ACTIVATIONS[activation_name(name)]()
