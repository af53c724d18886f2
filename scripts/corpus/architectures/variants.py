"""The same architectures through the other exporter, at other opsets and in half precision."""

from __future__ import annotations

from dataclasses import replace

import torch

from corpus.architectures.decoders import DECODERS
from corpus.architectures.encoders import ENCODERS
from corpus.architectures.layers import LAYERS
from corpus.architectures.pairs import ENCODER_DECODERS
from corpus.architectures.signals import SIGNALS
from corpus.entry import Architecture, Input
from corpus.wrappers import FromConfig, IdsMask

_BASE = {entry.name: entry for entry in (*ENCODERS, *DECODERS, *ENCODER_DECODERS, *SIGNALS, *LAYERS)}


def _torchscript(name: str, opset: int) -> Architecture:
    entry = _BASE[name]
    if isinstance(entry.build, FromConfig) and "decoder" in entry.tags:
        # Without a mask, decoders look for packed sequences with an operator that this exporter does not know.
        mask = Input(("batch", "seq"), is_mask=True)
        entry = replace(
            entry, build=replace(entry.build, wrapper=IdsMask), inputs={**entry.inputs, "attention_mask": mask}
        )
    return replace(entry, name=f"{name}-torchscript-{opset}", exporter="torchscript", opset=opset, quick=False)


def _at(name: str, opset: int) -> Architecture:
    return replace(_BASE[name], name=f"{name}-opset-{opset}", opset=opset, quick=False)


def _half(name: str) -> Architecture:
    return replace(_BASE[name], name=f"{name}-float16", dtype=torch.float16, quick=False)


VARIANTS = (
    *(_torchscript(name, opset) for name in ("bert", "gpt2", "llama", "t5", "vit", "phi3") for opset in (14, 17)),
    *(_at(name, opset) for name in ("bert", "t5", "clip-vision") for opset in (18, 23)),
    *(_at(name, 18) for name in ("gpt2", "llama", "gemma2", "phi3", "siglip-vision")),
    *(map(_half, ("bert", "llama", "gpt-neox", "vit"))),
)
