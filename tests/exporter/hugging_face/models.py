"""Small models with random weights, saved as ``save_pretrained`` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers  # type: ignore[import-not-found,unused-ignore]
from safetensors.torch import load_file, save_file

from ffn_export.core.quiet import silent

_TEXT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
    "max_position_embeddings": 64,
}
_HEADS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99}
_GROUPED = {**_TEXT, "num_key_value_heads": 2}
_ENCODER_DECODER = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 99,
}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 99}
_TOKENS = {"bos_token_id": 1, "eos_token_id": 1}
_SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
_SPECIAL = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 1, "decoder_start_token_id": 4}

# Class -> configuration.
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "BertModel": ("BertConfig", _TEXT),
    "BertForMaskedLM": ("BertConfig", _TEXT),
    "BertForSequenceClassification": ("BertConfig", {**_TEXT, "num_labels": 3}),
    "BertForQuestionAnswering": ("BertConfig", _TEXT),
    "RobertaForMaskedLM": ("RobertaConfig", {**_TEXT, "max_position_embeddings": 66, "type_vocab_size": 1}),
    "GPT2LMHeadModel": (
        "GPT2Config",
        {**_TOKENS, "n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 64},
    ),
    "LlamaForCausalLM": ("LlamaConfig", {**_TEXT, "num_key_value_heads": 2, "max_position_embeddings": 1024}),
    "Qwen2ForCausalLM": ("Qwen2Config", _GROUPED),
    "Qwen3ForCausalLM": ("Qwen3Config", {**_GROUPED, "head_dim": 8}),
    "GemmaForCausalLM": ("GemmaConfig", {**_GROUPED, "head_dim": 16}),
    "Gemma3ForCausalLM": ("Gemma3TextConfig", {**_GROUPED, "head_dim": 16, "sliding_window": 4}),
    "MistralForCausalLM": ("MistralConfig", {**_GROUPED, "sliding_window": 4}),
    "MambaForCausalLM": ("MambaConfig", {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 99}),
    "MixtralForCausalLM": ("MixtralConfig", {**_TEXT, "num_key_value_heads": 2, "num_local_experts": 4}),
    "Qwen3MoeForCausalLM": (
        "Qwen3MoeConfig",
        {**_GROUPED, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    ),
    "Gemma2ForCausalLM": ("Gemma2Config", {**_GROUPED, "head_dim": 16, "sliding_window": 4}),
    "Phi3ForCausalLM": (
        "Phi3Config",
        {**_GROUPED, "sliding_window": 4, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    ),
    "Starcoder2ForCausalLM": ("Starcoder2Config", {**_GROUPED, "sliding_window": 4}),
    "FalconForCausalLM": ("FalconConfig", {**_HEADS, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "OPTForCausalLM": ("OPTConfig", {**_TEXT, "ffn_dim": 64, "word_embed_proj_dim": 32}),
    "GPTNeoXForCausalLM": ("GPTNeoXConfig", _TEXT),
    "BloomForCausalLM": ("BloomConfig", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99}),
    "T5ForConditionalGeneration": ("T5Config", {**_T5, "decoder_start_token_id": 0}),
    "T5EncoderModel": ("T5Config", _T5),
    "BartForConditionalGeneration": ("BartConfig", {**_ENCODER_DECODER, **_SPECIAL, "max_position_embeddings": 64}),
    "ViTModel": ("ViTConfig", {**_TEXT, "image_size": 32, "patch_size": 8}),
    "ViTForImageClassification": ("ViTConfig", {**_TEXT, "image_size": 32, "patch_size": 8}),
    "ConvNextForImageClassification": (
        "ConvNextConfig",
        {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "image_size": 32},
    ),
    "CLIPModel": ("CLIPConfig", {"text_config": _SMALL, "vision_config": {**_SMALL, "image_size": 32}}),
    "ResNetForImageClassification": (
        "ResNetConfig",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
    ),
    "WhisperForConditionalGeneration": (
        "WhisperConfig",
        {**_ENCODER_DECODER, **_SPECIAL, "max_source_positions": 30, "max_target_positions": 20, "num_mel_bins": 8},
    ),
    "Wav2Vec2ForCTC": (
        "Wav2Vec2Config",
        {
            **_TEXT,
            "vocab_size": 20,
            "conv_dim": (16, 16),
            "conv_stride": (5, 2),
            "conv_kernel": (10, 3),
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
        },
    ),
}


def save(name: str, directory: Path, **changes: Any) -> Path:
    """Save a model of a class, its configuration changed as given."""
    config, settings = CONFIGS[name]
    torch.manual_seed(0)
    with silent():
        model = getattr(transformers, name)(getattr(transformers, config)(**{**settings, **changes}))
        # As trained weights are: a norm that does nothing and a bias of zero hide what goes wrong with them.
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
        model.save_pretrained(directory)
    return directory


def edit_config(directory: Path, **changes: Any) -> None:
    """Change ``config.json``; None removes an entry."""
    path = directory / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def edit_weights(directory: Path, **changes: torch.Tensor | None) -> None:
    """Change tensors by name, ``.`` written as ``__``; None removes one."""
    path = directory / "model.safetensors"
    tensors = load_file(path) | {name.replace("__", "."): tensor for name, tensor in changes.items()}
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, path, {"format": "pt"})


def as_bin(directory: Path, **extra: object) -> None:
    """Turn the safetensors into what ``torch.save`` writes, with something beside the tensors."""
    path = directory / "model.safetensors"
    torch.save({**load_file(path), **extra}, directory / "pytorch_model.bin")
    path.unlink()
