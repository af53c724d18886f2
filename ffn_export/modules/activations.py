"""Activations by name, each as an ``nn.Module`` without parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from torch import Tensor, nn

from ffn_export.core.activations import TABLE, Activation
from ffn_export.errors import UsageError, did_you_mean


class Formula(nn.Module):
    """An activation of the table that ``torch.nn`` has no class for."""

    def __init__(self, name: str, formula: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.name = name
        self.formula = formula

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to a floating-point tensor of any shape."""
        return self.formula(x)

    def extra_repr(self) -> str:
        """Return the activation's name."""
        return self.name


def _maker(activation: Activation) -> Callable[[], nn.Module]:
    if isinstance(activation.torch, str):
        return partial(getattr(nn, activation.torch), **activation.constants)
    assert activation.torch is not None
    return partial(Formula, activation.name, activation.torch)


ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = MappingProxyType(
    {name: _maker(activation) for name, activation in TABLE.items() if activation.torch is not None}
)
_ALIASES = {alias: name for name, activation in TABLE.items() for alias in activation.aliases}


def activation_name(name: str) -> str:
    """Return the table's name of an activation, given that name or its Hugging Face alias.

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
    """Return a new activation module, which keeps shape and dtype.

    Args:
        name: A key of ``ACTIVATIONS``, or its alias in Hugging Face configurations (``gelu_new``).

    Raises:
        UsageError: No activation has this name.
    """
    return ACTIVATIONS[activation_name(name)]()
