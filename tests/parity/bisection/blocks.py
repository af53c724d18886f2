"""Small modules whose graphs have every kind of node that a transformer has."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

IDS, MASK = "int64[batch,seq]{0..22}", "int64[batch,seq]{mask}"
WIDTH, HEADS = 16, 2


class Attention(nn.Module):
    """Multi-head attention over what the mask leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        def heads(y: Tensor) -> Tensor:
            return y.reshape(*y.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        lowest = (1 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        mixed = torch.softmax(scores + lowest, -1) @ v
        y: Tensor = self.out(mixed.transpose(1, 2).reshape(x.shape))
        return y


class GatedFeedForward(nn.Module):
    """``down(silu(gate(x)) * up(x))``."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 24, bias=False)
        self.up = nn.Linear(WIDTH, 24, bias=False)
        self.down = nn.Linear(24, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(nn.functional.silu(self.gate(x)) * self.up(x))
        return y


class Block(nn.Module):
    """Embedding, attention, a plain and a gated feed-forward with their norms, and the best token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(23, WIDTH)
        self.attention = Attention()
        self.norm_1 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 32)
        self.down = nn.Linear(32, WIDTH)
        self.norm_2 = nn.LayerNorm(WIDTH)
        self.norm_3 = nn.RMSNorm(WIDTH, eps=1e-2)  # large enough to show on rows of any scale
        self.gated = GatedFeedForward()
        self.head = nn.Linear(WIDTH, 23)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(ids)
        x = self.norm_1(x + self.attention(x, mask))
        x = self.norm_2(x + self.down(nn.functional.gelu(self.up(x))))
        x = x + self.gated(self.norm_3(x))
        logits = self.head(x)
        return logits, logits.argmax(-1)


class AddNormFeedForward(nn.Module):
    """A post-norm feed-forward block as in BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 32)
        self.down = nn.Linear(32, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x + self.down(nn.functional.gelu(self.up(x))))
        return y


def seeded(module: type[nn.Module]) -> nn.Module:
    """Make a module; no norm is the identity, no bias is zero."""
    torch.manual_seed(0)
    made = module().eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return made
