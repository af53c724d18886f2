"""Presets: named reference modules with all arguments and a source. Does not import torch until one is built."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ffn_export.core.checked_numbers import check_seed
from ffn_export.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Preset:
    """A named reference module.

    Attributes:
        name: Name on the command line, such as ``bert-ffn``.
        summary: The function in a few words.
        source: Paper, library or text that the module comes from.
        inputs: Input name -> spec string, in the order of ``forward``'s parameters. A dimension with a
            name is symbolic.
        outputs: Output names.
        example: Size of each symbolic dimension in an example input.
        factory: Function that builds the module and draws its weights from the current torch generator.
            It imports torch when called; ``create`` seeds the generator.
        seed: Default seed of the weights.
    """

    name: str
    summary: str
    source: str
    inputs: Mapping[str, str]
    outputs: tuple[str, ...]
    example: Mapping[str, int]
    factory: Callable[[], nn.Module] = field(repr=False)
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without the factory."""
        return {key: value for key, value in vars(self).items() if key != "factory"}


def _call(function: str) -> nn.Module:
    """Call a factory; only this imports the factories, and torch with them."""
    module: nn.Module = getattr(importlib.import_module("ffn_export.modules.preset_factories"), function)()
    return module


def _preset(
    name: str,
    d_model: int,
    summary: str,
    source: str,
    *,
    inputs: Mapping[str, str] | None = None,
    example: Mapping[str, int] | None = None,
) -> Preset:
    """Return a preset whose factory has the same name; by default with one input ``x`` over batch and seq."""
    return Preset(
        name=name,
        summary=summary,
        source=source,
        inputs=dict(inputs or {"x": f"float32[batch,seq,{d_model}]"}),
        outputs=("y",),
        example=dict(example or {"batch": 8, "seq": 128}),
        factory=partial(_call, name.replace("-", "_")),
    )


_APX = "ApX Machine Learning, position-wise feed-forward network"
_NLP = "Tunstall, von Werra and Wolf 2022, Natural Language Processing with Transformers, ch. 3"
_D2L = "Zhang et al., Dive into Deep Learning, as in deep-learning-handbook: Positionwise FFN & AddNorm"
_VASWANI = "Vaswani et al. 2017, Attention Is All You Need, table 3"

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            _preset("apx-ffn", 512, "feed-forward 512/2048, ReLU, dropout last", _APX),
            _preset("apx-ffn-residual", 512, "feed-forward 512/2048, ReLU, plus x", _APX),
            _preset("nlp-transformers-ffn", 768, "feed-forward 768/3072, GELU, from a config", _NLP),
            _preset("nlp-transformers-conv", 768, "the same as convolutions of kernel size 1", _NLP),
            _preset(
                "numpy-ffn",
                512,
                "feed-forward 512/2048, ReLU, weights 0.01 normal, zero biases",
                "Tutorialspoint, Generative AI: Feed Forward Neural Network in Transformers",
                example={"batch": 64, "seq": 10},
            ),
            _preset("d2l-ffn", 4, "feed-forward 4/8, ReLU", _D2L, example={"batch": 2, "seq": 3}),
            _preset(
                "d2l-addnorm",
                4,
                "LayerNorm of x + sublayer, over [3, 4]",
                _D2L,
                inputs={"x": "float32[batch,3,4]", "sublayer": "float32[batch,3,4]"},
                example={"batch": 2},
            ),
            _preset(
                "d2l-ffn-addnorm",
                4,
                "feed-forward 4/8, ReLU, under AddNorm over 4",
                _D2L,
                example={"batch": 2, "seq": 3},
            ),
            _preset("transformer-base", 512, "post-norm block 512/2048, ReLU", f"{_VASWANI}, base model"),
            _preset("transformer-big", 1024, "post-norm block 1024/4096, ReLU", f"{_VASWANI}, big model"),
            _preset(
                "bert-ffn",
                768,
                "post-norm block 768/3072, GELU, LayerNorm with epsilon 1e-12",
                "Devlin et al. 2019, BERT (base); transformers.BertConfig",
            ),
            _preset(
                "gpt2-ffn",
                768,
                "pre-norm block 768/3072, tanh GELU, LayerNorm with epsilon 1e-5",
                "Radford et al. 2019, GPT-2 (small); transformers.GPT2Config",
            ),
            _preset(
                "t5-ffn",
                512,
                "pre-norm block 512/2048, ReLU, RMSNorm, no biases",
                "Raffel et al. 2020, T5 (small); transformers.T5Config",
            ),
            _preset(
                "llama-ffn",
                768,
                "pre-norm block 768/2048, SwiGLU, RMSNorm, no biases",
                "Touvron et al. 2023, LLaMA, at d_model 768; d_ff is 2/3 of 4 d_model, section 2.2",
            ),
            _preset(
                "gemma-ffn",
                768,
                "pre-norm block 768/2048, tanh GeGLU, RMSNorm scaled by 1 + weight, no biases",
                "Gemma Team 2024, Gemma; transformers.GemmaConfig, at the widths of llama-ffn",
            ),
        )
    }
)


def get_preset(name: str) -> Preset:
    """Return the preset of this name.

    Raises:
        UsageError: No preset has this name.
    """
    if name not in PRESETS:
        raise UsageError(f"unknown preset {name!r}:{did_you_mean(name, PRESETS)} known: {', '.join(PRESETS)}")
    return PRESETS[name]


def create(name: str, seed: int | None = None) -> nn.Module:
    """Return a preset's module in eval mode on the CPU, the same for the same seed.

    It is float32 unless torch's default dtype was changed. The state of the caller's random generators
    does not change.

    Args:
        name: A key of ``PRESETS``.
        seed: Seed of the weights; None means the preset's default.

    Raises:
        UsageError: No preset has this name, or the seed is no whole number from 0 to 2**63 - 1.

    Examples:
        >>> module = fx.create("d2l-ffn", seed=1)
        >>> sum(parameter.numel() for parameter in module.parameters())
        76
    """
    preset = get_preset(name)
    chosen = preset.seed if seed is None else seed
    check_seed(chosen)
    import torch

    # Seed only the CPU generator: torch.manual_seed also seeds those of all GPUs, which
    # fork_rng(devices=[]) does not restore. The weights are drawn on the CPU.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(chosen)
        return preset.factory().eval()
