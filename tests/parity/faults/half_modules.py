"""Modules in half precision that compute norms, softmaxes and sums in float32, as the transformers library does."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.parity.faults.modules import HEADS, WIDTH

_HIDDEN = 64


class RmsNorm(nn.Module):
    """As in Llama, or as in Gemma with an offset: statistics in float32."""

    def __init__(self, offset: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 - offset + 0.1 * torch.randn(WIDTH))
        self.offset = offset

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        if self.offset:
            return (normed * (self.offset + self.weight.float())).to(x.dtype)
        return self.weight * normed.to(x.dtype)


class LayerNorm(nn.LayerNorm):
    """A LayerNorm by its formula, in float32."""

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        centred = wide - wide.mean(-1, keepdim=True)
        normed = centred / (centred.pow(2).mean(-1, keepdim=True) + self.eps).sqrt()
        return normed.to(x.dtype) * self.weight + self.bias


class Attention(nn.Module):
    """Attention whose softmax is in float32, or its scores, too, as in GPT-2 with ``reorder_and_upcast_attn``."""

    def __init__(self, *, wide_scores: bool = False) -> None:
        super().__init__()
        self.packed = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.wide_scores = wide_scores

    def forward(self, x: Tensor) -> Tensor:
        heads = self.packed(x).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        query, key, value = heads[0], heads[1], heads[2]
        if self.wide_scores:
            query, key = query.float(), key.float()
        scores = query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)
        mixed: Tensor = self.out((weights @ value).transpose(1, 2).flatten(2))
        return mixed


class WideOutput(nn.Module):
    """A feed-forward whose second product is in float32, as in T5."""

    def __init__(self) -> None:
        super().__init__()
        self.wi = nn.Linear(WIDTH, _HIDDEN, bias=False)
        self.wo = nn.Linear(_HIDDEN, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.relu(self.wi(x)).float(), self.wo.weight.float()).to(x.dtype)


class Layer(nn.Module):
    """A pre-norm layer."""

    def __init__(self, first: nn.Module, attention: nn.Module, second: nn.Module, feed_forward: nn.Module) -> None:
        super().__init__()
        self.first, self.attention = first, attention
        self.second, self.feed_forward = second, feed_forward

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        y: Tensor = x + self.feed_forward(self.second(x))
        return y


class Sums(nn.Module):
    """Sums over many hidden values, over tokens, and of exponentials, as a head's loss has it; all in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, 512)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        hidden = self.linear(x)
        wide = hidden.float()
        return {
            "total": wide.sum(-1).to(x.dtype),
            "cumulative": x.cumsum(1, dtype=torch.float32).to(x.dtype),
            "probabilities": (wide - torch.logsumexp(wide, -1, keepdim=True)).to(x.dtype),
        }


def half_llama() -> nn.Module:
    """As in Llama: RMSNorm and softmax in float32."""
    return Layer(RmsNorm(), Attention(), RmsNorm(), WideOutput()).half()


def half_gemma() -> nn.Module:
    """As in Gemma: a norm with its scale in float32."""
    return Layer(RmsNorm(1.0), Attention(), RmsNorm(1.0), WideOutput()).half()


def half_gpt2() -> nn.Module:
    """LayerNorms by their formula, and scores in float32."""
    return Layer(LayerNorm(WIDTH), Attention(wide_scores=True), LayerNorm(WIDTH), WideOutput()).half()


def half_llava() -> nn.Module:
    """PyTorch's LayerNorm, as in an encoder of images, before a layer of Llama."""
    return Layer(nn.LayerNorm(WIDTH), Attention(), RmsNorm(), WideOutput()).half()


def half_sums() -> nn.Module:
    """Sums in float32."""
    return Sums().half()
