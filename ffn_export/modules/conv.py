"""The feed-forward as two convolutions of kernel size 1 along the sequence."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from ffn_export.errors import UsageError
from ffn_export.modules import arguments
from ffn_export.modules.activations import activation_name, make_activation
from ffn_export.modules.config import FeedForwardConfig
from ffn_export.modules.feed_forward import FeedForward


class ConvFeedForward(nn.Module):
    """The same function as ``FeedForward``, as kernel-1 ``nn.Conv1d`` over [batch, seq, d_model].

    The convolutions take [batch, channels, seq], so the module transposes its input and output.
    Source: Tunstall, von Werra and Wolf 2022, "Natural Language Processing with Transformers", ch. 3,
    which names this form and the GPT codebase that uses it.

    Args:
        d_model: Width of the input and of the output.
        d_ff: Width of the hidden layer.
        activation: A name known to ``make_activation``.
        dropout: Probability of dropout after the second convolution; off in eval mode.
        bias: Whether the convolutions have biases.

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
        self.conv_1 = nn.Conv1d(self.d_model, self.d_ff, kernel_size=1, bias=bias)
        self.activation = make_activation(activation)
        self.conv_2 = nn.Conv1d(self.d_ff, self.d_model, kernel_size=1, bias=bias)
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
        """Map [batch, seq, d_model] to the same shape, in the dtype of the weights; batch and seq may be 0.

        Raises:
            UsageError: The input is not of rank 3.
        """
        # The rank is static in torch.export, so this check adds no guard on a dynamic size.
        if x.dim() != 3:
            raise UsageError(
                f"ConvFeedForward needs an input of rank 3, [batch, seq, d_model], got rank {x.dim()}: "
                "reshape it, or use FeedForward, which takes any rank"
            )
        # PyTorch's convolution refuses an empty sequence. Skipped while torch.export traces: comparing a
        # dynamic size in Python adds a guard.
        if not torch.compiler.is_compiling() and x.shape[1] == 0:
            return x
        y: Tensor = self.conv_2(self.activation(self.conv_1(x.transpose(1, 2)))).transpose(1, 2)
        z: Tensor = self.dropout(y)
        return z

    @torch.no_grad()
    def load_feed_forward(self, ff: FeedForward) -> Self:
        """Copy the weights of a ``FeedForward``, so that both compute the same function.

        A linear's weight [out, in] becomes a convolution's [out, in, 1].

        Returns:
            This module; its dtype and device do not change.

        Raises:
            UsageError: Widths, activation, or the presence of biases differ.
        """
        mine = (self.d_model, self.d_ff, self.activation_name, self.conv_1.bias is not None)
        theirs = (ff.d_model, ff.d_ff, ff.activation_name, ff.linear_1.bias is not None)
        if mine != theirs:
            raise UsageError(
                f"load_feed_forward needs equal d_model, d_ff, activation and bias: this has {mine}, the other {theirs}"
            )
        for conv, linear in ((self.conv_1, ff.linear_1), (self.conv_2, ff.linear_2)):
            state = linear.state_dict()
            conv.load_state_dict(state | {"weight": state["weight"].unsqueeze(-1)})
        return self
