"""Residual addition followed by a norm, with the sublayer's output as a second input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ffn_export.errors import UsageError
from ffn_export.modules import arguments
from ffn_export.modules.norms import make_norm


class AddNorm(nn.Module):
    """AddNorm(x, s) = norm(x + dropout(s)): the post-norm residual of a Transformer layer.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1; the two-input module is that
    of Zhang et al., "Dive into Deep Learning".

    Args:
        normalized_shape: The trailing dimensions to normalise over: 768, or [3, 4].
        dropout: Probability of dropout on the sublayer's output; off in eval mode.
        norm: A kind known to ``make_norm``.
        eps: Epsilon of the norm; None means the default of the kind (1e-5 for LayerNorm).

    Raises:
        UsageError: The shape is empty or not positive, the kind unknown, eps or dropout out of range.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        dropout: float = 0.1,
        norm: str = "layer_norm",
        eps: float | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = arguments.shape("normalized_shape", normalized_shape)
        self.dropout = nn.Dropout(arguments.dropout(dropout))
        self.norm = make_norm(norm, self.normalized_shape, eps)

    def forward(self, x: Tensor, sublayer: Tensor) -> Tensor:
        """Map two tensors [..., *normalized_shape] of one shape to that shape.

        Raises:
            UsageError: The shapes differ. The addition would broadcast, which is never meant in a residual.
        """
        # Skipped while torch.export traces: comparing dynamic sizes in Python adds guards. Inputs that
        # share the named axes of a spec cannot differ anyway.
        if not torch.compiler.is_compiling() and x.shape != sublayer.shape:
            raise UsageError(f"AddNorm needs two inputs of one shape, got {list(x.shape)} and {list(sublayer.shape)}")
        y: Tensor = self.norm(x + self.dropout(sublayer))
        return y
