"""The modules that faults are planted into: small, and drawn so that no two layers, norms or biases are equal.

Each is a factory that ``verify --against tests.parity.faults.modules:NAME`` can call.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ffn_export.modules.block import FeedForwardBlock
from ffn_export.modules.feed_forward import FeedForward
from ffn_export.modules.gated import GatedFeedForward
from ffn_export.modules.initialise import randomise_norms
from ffn_export.modules.norms import make_norm

WIDTH = 32
HEADS = 4
VOCABULARY = 61
LARGE_VOCABULARY = 20_000
LONGEST = 512
_HIDDEN = 64
_MASKED = -1e9


def post_norm() -> nn.Module:
    """As in BERT: erf GELU, LayerNorm after the sum."""
    return randomise_norms(
        FeedForwardBlock(FeedForward(WIDTH, _HIDDEN, "gelu"), make_norm("layer_norm", WIDTH), "post")
    )


def pre_norm() -> nn.Module:
    """As in GPT-2: tanh GELU, LayerNorm before the first linear."""
    ff = FeedForward(WIDTH, _HIDDEN, "gelu_tanh")
    return randomise_norms(FeedForwardBlock(ff, make_norm("layer_norm", WIDTH), "pre"))


def swiglu() -> nn.Module:
    """As in Llama: SwiGLU, RMSNorm before it, no biases."""
    return randomise_norms(FeedForwardBlock(GatedFeedForward(WIDTH, 48, "silu"), make_norm("rms_norm", WIDTH), "pre"))


def offset_geglu() -> nn.Module:
    """As in Gemma: a norm that scales by 1 + weight, which exporting folds, and a gate and up in one linear."""
    ff = GatedFeedForward(WIDTH, 48, "gelu_tanh", packed=True)
    return randomise_norms(FeedForwardBlock(ff, make_norm("offset_rms_norm", WIDTH), "pre"))


def relu() -> nn.Module:
    """A bare feed-forward with ReLU and biases."""
    return FeedForward(WIDTH, _HIDDEN, "relu")


def square() -> nn.Module:
    """A bare feed-forward whose matrices are square, without biases."""
    return FeedForward(WIDTH, WIDTH, "relu", bias=False)


class TwoOutputs(nn.Module):
    """A sum and its norm, both given back, as pre-norm blocks hand on the residual stream."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        residual = x + self.linear(x)
        return {"residual": residual, "normed": self.norm(residual)}


def two_outputs() -> nn.Module:
    """A module with two outputs of one shape."""
    return randomise_norms(TwoOutputs())


class Attention(nn.Module):
    """Causal self-attention that leaves padding out."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        query, key, value = (self._heads(linear(x)) for linear in (self.query, self.key, self.value))
        scores = query @ key.transpose(-1, -2) / math.sqrt(WIDTH // HEADS) + bias
        mixed = scores.softmax(dim=-1) @ value
        attended: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return attended

    def _heads(self, x: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        return x.reshape(batch, seq, HEADS, WIDTH // HEADS).transpose(1, 2)


class Layer(nn.Module):
    """A pre-norm layer of a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.feed_forward = FeedForwardBlock(FeedForward(WIDTH, _HIDDEN, "gelu"), nn.LayerNorm(WIDTH), "pre")

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        y: Tensor = self.feed_forward(x + self.attention(self.attention_norm(x), bias))
        return y


class Decoder(nn.Module):
    """Two layers over token ids, with learned positions and the table of tokens as its last linear."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map ids and a mask [batch, seq] to logits [batch, seq, vocabulary]."""
        position = torch.arange(ids.shape[1])
        seen = (position[:, None] >= position) & (mask[:, None, None, :] > 0)
        bias = torch.where(seen, 0.0, _MASKED)
        x = self.tokens(ids) + self.positions(position)
        for layer in self.layers:
            x = layer(x, bias)
        logits: Tensor = self.norm(x) @ self.tokens.weight.T
        return logits


def decoder() -> nn.Module:
    """A small GPT."""
    return randomise_norms(Decoder())


class Joined(nn.Module):
    """A ReLU of the sum of two inputs, behind a linear."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return torch.relu(self.linear(x + residual))


def joined() -> nn.Module:
    """A module of two inputs that it adds."""
    return Joined()


class Rounded(nn.Module):
    """A linear of inputs that are rounded to quarters."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(torch.round(x * 4) / 4)
        return y


def rounded() -> nn.Module:
    """A module that rounds."""
    return Rounded()


def embedding() -> nn.Module:
    """A table of many tokens, of which a sweep draws few."""
    return nn.Sequential(nn.Embedding(LARGE_VOCABULARY, 8), nn.Linear(8, 4))


def encoder() -> nn.Module:
    """PyTorch's own encoder, two layers, post-norm, as it is trained: with dropout, biases and packed projections."""
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, _HIDDEN, activation="gelu", batch_first=True)
    stacked = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False)
    for parameter in stacked.parameters():  # the layers of a stack begin as copies of one
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.normal_(parameter, std=0.1)
    return randomise_norms(stacked)
