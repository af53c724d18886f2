"""The gated feed-forward of the GLU family: SwiGLU, GeGLU, ReGLU."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from ffn_export.errors import UsageError
from ffn_export.modules import arguments
from ffn_export.modules.activations import activation_name, make_activation


class GatedFeedForward(nn.Module):
    """FFN(x) = dropout(W_down (act(W_gate x) * (W_up x))).

    With ``silu`` it is SwiGLU, with ``gelu`` or ``gelu_tanh`` GeGLU, with ``relu`` ReGLU.
    Source: Shazeer 2020, "GLU Variants Improve Transformer", equations 5 and 6.

    Args:
        d_model: Width of the input and of the output.
        d_ff: Width of the gate projection, and of the up projection.
        activation: A name known to ``make_activation``; it is applied to the gate only.
        dropout: Probability of dropout after the down projection; off in eval mode.
        bias: Whether the linears have biases.
        packed: Whether one linear ``gate_up``, d_model -> 2 * d_ff with the gate first, takes the place
            of the linears ``gate`` and ``up``. The function is the same; see ``load_gated``.

    Raises:
        UsageError: A width is not positive, dropout is not in [0, 1], the activation is unknown.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: str = "silu",
        dropout: float = 0.0,
        bias: bool = False,
        *,
        packed: bool = False,
    ) -> None:
        super().__init__()
        self.d_model = arguments.width("d_model", d_model)
        self.d_ff = arguments.width("d_ff", d_ff)
        self.activation_name = activation_name(activation)
        self.packed = packed
        if packed:
            self.gate_up = nn.Linear(self.d_model, 2 * self.d_ff, bias=bias)
        else:
            self.gate = nn.Linear(self.d_model, self.d_ff, bias=bias)
            self.up = nn.Linear(self.d_model, self.d_ff, bias=bias)
        self.activation = make_activation(activation)
        self.down = nn.Linear(self.d_ff, self.d_model, bias=bias)
        self.dropout = nn.Dropout(arguments.dropout(dropout))

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., d_model] to [..., d_model], in the dtype of the weights."""
        if self.packed:
            gate, up = self.gate_up(x).chunk(2, dim=-1)
        else:
            gate, up = self.gate(x), self.up(x)
        y: Tensor = self.dropout(self.down(self.activation(gate) * up))
        return y

    @torch.no_grad()
    def load_gated(self, other: GatedFeedForward) -> Self:
        """Copy the weights of another module, packed or not, so that both compute the same function.

        Returns:
            This module; its layout, dtype and device do not change.

        Raises:
            UsageError: Widths, activation, or the presence of biases differ.
        """
        if _signature(self) != _signature(other):
            raise UsageError(
                "load_gated needs equal d_model, d_ff, activation and bias: "
                f"this has {_signature(self)}, the other {_signature(other)}"
            )
        self._set_gate_up(*other.gate_and_up())
        self.down.load_state_dict(other.down.state_dict())
        return self

    def gate_and_up(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the parameters of the gate and of the up projection separately, packed or not.

        Each has ``weight`` [d_ff, d_model] and, if the linears have biases, ``bias`` [d_ff].
        """
        if not self.packed:
            return self.gate.state_dict(), self.up.state_dict()
        gate, up = {}, {}
        for name, value in self.gate_up.state_dict().items():
            gate[name], up[name] = value.chunk(2, dim=0)
        return gate, up

    def _set_gate_up(self, gate: dict[str, Tensor], up: dict[str, Tensor]) -> None:
        if self.packed:
            self.gate_up.load_state_dict({name: torch.cat((gate[name], up[name])) for name in gate})
        else:
            self.gate.load_state_dict(gate)
            self.up.load_state_dict(up)


def _signature(module: GatedFeedForward) -> tuple[int, int, str, bool]:
    return module.d_model, module.d_ff, module.activation_name, module.down.bias is not None
