"""The presets that are compared, at other widths: the same structure, activation, norm and epsilon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from ffn_export.modules.block import FeedForwardBlock, NormPosition
from ffn_export.modules.feed_forward import FeedForward
from ffn_export.modules.gated import GatedFeedForward
from ffn_export.modules.initialise import randomise_norms
from ffn_export.modules.norms import make_norm

WIDTHS = ((512, 2048), (768, 3072), (1024, 4096))
THREADS = (1, 2)


@dataclass(frozen=True)
class Structure:
    """What a preset is made of, but for its widths.

    Attributes:
        feed_forward: Makes it from ``d_model`` and ``d_ff``.
        norm: Name and epsilon.
        position: Where the norm stands.
        peer_type: The optimiser of onnxruntime.transformers that knows such blocks.
    """

    feed_forward: Callable[[int, int], nn.Module]
    norm: tuple[str, float]
    position: NormPosition
    peer_type: str


STRUCTURES: Mapping[str, Structure] = {
    "bert-ffn": Structure(lambda d, f: FeedForward(d, f, "gelu", dropout=0.1), ("layer_norm", 1e-12), "post", "bert"),
    "transformer-base": Structure(
        lambda d, f: FeedForward(d, f, "relu", dropout=0.1), ("layer_norm", 1e-5), "post", "bert"
    ),
    "gpt2-ffn": Structure(
        lambda d, f: FeedForward(d, f, "gelu_tanh", dropout=0.1), ("layer_norm", 1e-5), "pre", "gpt2"
    ),
    # onnxruntime.transformers has no optimiser for Llama; gpt2's is its most general one for decoders.
    "llama-ffn": Structure(lambda d, f: GatedFeedForward(d, f, "silu"), ("rms_norm", 1e-6), "pre", "gpt2"),
}


def block(preset: str, d_model: int, d_ff: int) -> FeedForwardBlock:
    """Build a preset at these widths in evaluation mode, with the weights that ``create`` draws at its own.

    Args:
        preset: A key of ``STRUCTURES``.
        d_model: Width of the input and of the output.
        d_ff: Inner width.

    Raises:
        UsageError: A width is not positive.
    """
    structure = STRUCTURES[preset]
    kind, epsilon = structure.norm
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        norm = make_norm(kind, d_model, eps=epsilon)
        made = FeedForwardBlock(structure.feed_forward(d_model, d_ff), norm, structure.position)
        return randomise_norms(made).eval()
