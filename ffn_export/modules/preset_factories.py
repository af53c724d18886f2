"""Factories of the presets: one function for each, named after it.

Each draws its weights from the current torch generator. ``ffn_export.modules.presets`` has the names,
sources and inputs, and sets the seed.
"""

from __future__ import annotations

from torch import nn

from ffn_export.modules.add_norm import AddNorm
from ffn_export.modules.block import AddNormFeedForward, FeedForwardBlock
from ffn_export.modules.config import FeedForwardConfig
from ffn_export.modules.conv import ConvFeedForward
from ffn_export.modules.feed_forward import FeedForward
from ffn_export.modules.gated import GatedFeedForward
from ffn_export.modules.initialise import randomise_norms, small_normal_
from ffn_export.modules.norms import make_norm

_NLP_TRANSFORMERS = FeedForwardConfig(hidden_size=768, intermediate_size=3072, hidden_dropout_prob=0.1)


def apx_ffn() -> nn.Module:
    """ReLU, 512 -> 2048 -> 512, dropout after the second linear."""
    return FeedForward(512, 2048, "relu", dropout=0.1)


def apx_ffn_residual() -> nn.Module:
    """``apx_ffn`` with a residual: plus x."""
    return FeedForwardBlock(apx_ffn())


def nlp_transformers_ffn() -> nn.Module:
    """GELU, 768 -> 3072 -> 768, from a configuration."""
    return FeedForward.from_config(_NLP_TRANSFORMERS)


def nlp_transformers_conv() -> nn.Module:
    """``nlp_transformers_ffn`` as convolutions, with the same weights for the same seed."""
    linear_form = FeedForward.from_config(_NLP_TRANSFORMERS)
    return ConvFeedForward.from_config(_NLP_TRANSFORMERS).load_feed_forward(linear_form)


def numpy_ffn() -> nn.Module:
    """ReLU, 512 -> 2048 -> 512, weights 0.01 normal and zero biases."""
    return small_normal_(FeedForward(512, 2048, "relu", dropout=0.0), std=0.01)


def d2l_ffn() -> nn.Module:
    """ReLU, 4 -> 8 -> 4, no dropout."""
    return FeedForward(4, 8, "relu", dropout=0.0)


def d2l_addnorm() -> nn.Module:
    """AddNorm over the last two dimensions, [3, 4]."""
    return randomise_norms(AddNorm([3, 4], dropout=0.5))


def d2l_ffn_addnorm() -> nn.Module:
    """The 4 -> 8 -> 4 feed-forward under AddNorm over 4."""
    return randomise_norms(AddNormFeedForward(d2l_ffn(), AddNorm(4, dropout=0.5)))


def transformer_base() -> nn.Module:
    """Post-norm, ReLU, 512 -> 2048 -> 512; LayerNorm epsilon is PyTorch's."""
    norm = make_norm("layer_norm", 512, eps=1e-5)
    return randomise_norms(FeedForwardBlock(FeedForward(512, 2048, "relu", dropout=0.1), norm, "post"))


def transformer_big() -> nn.Module:
    """Post-norm, ReLU, 1024 -> 4096 -> 1024, dropout 0.3; LayerNorm epsilon is PyTorch's."""
    norm = make_norm("layer_norm", 1024, eps=1e-5)
    return randomise_norms(FeedForwardBlock(FeedForward(1024, 4096, "relu", dropout=0.3), norm, "post"))


def bert_ffn() -> nn.Module:
    """Post-norm, erf GELU, 768 -> 3072 -> 768, epsilon 1e-12."""
    norm = make_norm("layer_norm", 768, eps=1e-12)
    return randomise_norms(FeedForwardBlock(FeedForward(768, 3072, "gelu", dropout=0.1), norm, "post"))


def gpt2_ffn() -> nn.Module:
    """Pre-norm, tanh GELU, 768 -> 3072 -> 768, epsilon 1e-5."""
    norm = make_norm("layer_norm", 768, eps=1e-5)
    return randomise_norms(FeedForwardBlock(FeedForward(768, 3072, "gelu_tanh", dropout=0.1), norm, "pre"))


def t5_ffn() -> nn.Module:
    """Pre-norm RMSNorm, ReLU, 512 -> 2048 -> 512, no biases, epsilon 1e-6."""
    norm = make_norm("rms_norm", 512, eps=1e-6)
    ff = FeedForward(512, 2048, "relu", dropout=0.1, bias=False)
    return randomise_norms(FeedForwardBlock(ff, norm, "pre"))


def llama_ffn() -> nn.Module:
    """Pre-norm RMSNorm, SwiGLU, 768 -> 2048 -> 768, no biases, epsilon 1e-6."""
    norm = make_norm("rms_norm", 768, eps=1e-6)
    return randomise_norms(FeedForwardBlock(GatedFeedForward(768, 2048, "silu"), norm, "pre"))


def gemma_ffn() -> nn.Module:
    """Pre-norm RMSNorm with 1 + weight, tanh GeGLU, 768 -> 2048 -> 768, no biases, epsilon 1e-6."""
    norm = make_norm("offset_rms_norm", 768, eps=1e-6)
    return randomise_norms(FeedForwardBlock(GatedFeedForward(768, 2048, "gelu_tanh"), norm, "pre"))
