"""The position-wise feed-forward network: two linears with an activation between them."""

from __future__ import annotations

from typing import Self

from torch import Tensor, nn

from ffn_export.modules import arguments
from ffn_export.modules.activations import activation_name, make_activation
from ffn_export.modules.config import FeedForwardConfig


class FeedForward(nn.Module):
    """FFN(x) = dropout(W2 act(W1 x + b1) + b2), the same at each position.

    Source: Vaswani et al. 2017, "Attention Is All You Need", equation 2, with ReLU.

    Args:
        d_model: Width of the input and of the output.
        d_ff: Width of the hidden layer; usually four times d_model.
        activation: A name known to ``make_activation``.
        dropout: Probability of dropout after the second linear; off in eval mode.
        bias: Whether the linears have biases b1 and b2.

    Raises:
        UsageError: A width is not positive, dropout is not in [0, 1], the activation is unknown.
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: str = "relu", dropout: float = 0.1, bias: bool = True
    ) -> None:
        super().__init__()
        self.d_model = arguments.width("d_model", d_model)
        self.d_ff = arguments.width("d_ff", d_ff)
        self.activation_name = activation_name(activation)
        self.linear_1 = nn.Linear(self.d_model, self.d_ff, bias=bias)
        self.activation = make_activation(activation)
        self.linear_2 = nn.Linear(self.d_ff, self.d_model, bias=bias)
        self.dropout = nn.Dropout(arguments.dropout(dropout))

    @classmethod
    def from_config(cls, config: object) -> Self:
        """Build a module from any object with the fields of ``FeedForwardConfig``.

        Raises:
            UsageError: A field is missing or out of range.
        """
        read = FeedForwardConfig.read(config)
        return cls(read.hidden_size, read.intermediate_size, read.hidden_act, read.hidden_dropout_prob)

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., d_model] to [..., d_model], in the dtype of the weights."""
        y: Tensor = self.dropout(self.linear_2(self.activation(self.linear_1(x))))
        return y
