"""A feed-forward with a residual connection, and a norm before it, after the sum, or none."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor, nn

from ffn_export.errors import UsageError
from ffn_export.modules.add_norm import AddNorm

NormPosition = Literal["pre", "post", "none"]


class FeedForwardBlock(nn.Module):
    """The feed-forward half of a Transformer layer.

    ``pre``: x + ffn(norm(x)), as in GPT-2, T5 and Llama (Xiong et al. 2020 compares the two).
    ``post``: norm(x + ffn(x)), as in Vaswani et al. 2017 and BERT.
    ``none``: ffn(x) + x.

    Submodules are registered in execution order: in ``pre`` the norm comes first. The first linear in
    ``modules()`` is always W1.

    Args:
        feed_forward: A module [..., d_model] -> [..., d_model]. Its dropout is that of the residual.
        norm: A norm over the trailing dimensions, from ``make_norm``; None for ``none``.
        norm_position: Position of the norm.

    Raises:
        UsageError: The position is unknown, a norm is missing, or a norm is given for ``none``.
    """

    def __init__(
        self, feed_forward: nn.Module, norm: nn.Module | None = None, norm_position: NormPosition = "none"
    ) -> None:
        super().__init__()
        if norm_position not in get_args(NormPosition):
            raise UsageError(f"norm_position must be 'pre', 'post' or 'none', got {norm_position!r}")
        if norm is None and norm_position != "none":
            raise UsageError(f"norm_position {norm_position!r} needs a norm: give one, or norm_position='none'")
        if norm is not None and norm_position == "none":
            raise UsageError("the norm would not be used: give norm_position='pre' or 'post' with it")
        self.norm_position = norm_position
        if norm_position == "pre":
            self.norm = norm
            self.feed_forward = feed_forward
        else:
            self.feed_forward = feed_forward
            self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., d_model] to [..., d_model], in the dtype of the weights."""
        y: Tensor
        if self.norm is None:
            y = self.feed_forward(x) + x
        elif self.norm_position == "pre":
            y = x + self.feed_forward(self.norm(x))
        else:
            y = self.norm(x + self.feed_forward(x))
        return y


class AddNormFeedForward(nn.Module):
    """A feed-forward under AddNorm: add_norm(x, ffn(x)).

    Computes the same function as a post-norm ``FeedForwardBlock``, with the two-input module.
    Source: the encoder block of Zhang et al., "Dive into Deep Learning".

    Args:
        feed_forward: A module [..., d_model] -> [..., d_model].
        add_norm: The residual and norm around it.
    """

    def __init__(self, feed_forward: nn.Module, add_norm: AddNorm) -> None:
        super().__init__()
        self.feed_forward = feed_forward
        self.add_norm = add_norm

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., d_model] to [..., d_model], in the dtype of the weights."""
        y: Tensor = self.add_norm(x, self.feed_forward(x))
        return y
