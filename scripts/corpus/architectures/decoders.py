"""Decoders of text."""

from __future__ import annotations

from typing import Any

from corpus.entry import Architecture, Input
from corpus.wrappers import Ids, from_config

_IDS = {"input_ids": Input(("batch", "seq"), below=97)}
_TOKENS: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False}
_SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    **_TOKENS,
}
_HEADS: dict[str, Any] = {**_SIZES, "head_dim": 16}
_GPT2_SIZES: dict[str, Any] = {"vocab_size": 97, "n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64, **_TOKENS}


# The optimisers that onnxruntime.transformers has for decoders; gpt2's is its most general one.
_PEER_TYPES = {"gpt-neox": "gpt_neox", "phi": "phi", "qwen3": "qwen3"}


def _decoder(name: str, model: str, *tags: str, quick: bool = False, **config: Any) -> Architecture:
    build = from_config(Ids, model, {"use_cache": False}, **config)
    peer_type = _PEER_TYPES.get(name, "gpt2")
    return Architecture(name, ("decoder", *tags), build, _IDS, peer_type=peer_type, quick=quick)


_LAYER_NORM = (
    _decoder("gpt2", "GPT2Model", "pre-norm", "Conv1D", **_GPT2_SIZES, n_inner=112, quick=True),
    _decoder("openai-gpt", "OpenAIGPTModel", "post-norm", "Conv1D", **_GPT2_SIZES),
    _decoder("gptj", "GPTJModel", "parallel", **_GPT2_SIZES, n_inner=112, rotary_dim=8),
    _decoder("codegen", "CodeGenModel", "parallel", **_GPT2_SIZES, n_inner=112, rotary_dim=8),
    _decoder("gpt-bigcode", "GPTBigCodeModel", "pre-norm", **_GPT2_SIZES, n_inner=112),
    _decoder(
        "gpt-neo",
        "GPTNeoModel",
        "pre-norm",
        vocab_size=97,
        hidden_size=48,
        num_layers=2,
        num_heads=4,
        intermediate_size=112,
        attention_types=[[["global", "local"], 1]],
        max_position_embeddings=64,
        **_TOKENS,
    ),
    _decoder("gpt-neox", "GPTNeoXModel", "parallel", "one sum, two norms", **_SIZES),
    _decoder("gpt-neox-japanese", "GPTNeoXJapaneseModel", "pre-norm", **{**_SIZES, "intermediate_multiple_size": 3}),
    _decoder(
        "opt",
        "OPTModel",
        "pre-norm",
        "relu",
        vocab_size=97,
        hidden_size=48,
        ffn_dim=112,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        word_embed_proj_dim=48,
        **_TOKENS,
    ),
    _decoder("bloom", "BloomModel", "pre-norm", vocab_size=97, hidden_size=48, n_layer=2, n_head=4, **_TOKENS),
    _decoder("falcon", "FalconModel", "parallel", **_SIZES, ffn_hidden_size=112, parallel_attn=True),
    _decoder(
        "falcon-sequential",
        "FalconModel",
        "pre-norm",
        **_SIZES,
        ffn_hidden_size=112,
        parallel_attn=False,
        new_decoder_architecture=False,
        bias=True,
    ),
    _decoder("mpt", "MptModel", "pre-norm", "no bias", vocab_size=97, d_model=48, n_layers=2, n_heads=4, **_TOKENS),
    _decoder("biogpt", "BioGptModel", "pre-norm", **_SIZES),
    _decoder("phi", "PhiModel", "parallel", **_SIZES),
    _decoder("persimmon", "PersimmonModel", "pre-norm", "relu2", "per-head norms", **_SIZES),
    _decoder("stablelm", "StableLmModel", "pre-norm", "gated", **_SIZES, partial_rotary_factor=0.5),
    _decoder("starcoder2", "Starcoder2Model", "pre-norm", **_SIZES),
    _decoder("nemotron", "NemotronModel", "pre-norm", "relu2", "(1 + w) norm", **_HEADS),
    _decoder("olmo", "OlmoModel", "pre-norm", "gated", "norm without affine", **_SIZES),
    _decoder("cohere", "CohereModel", "parallel", "gated", "norm without bias", **_SIZES),
    _decoder(
        "ctrl",
        "CTRLModel",
        "pre-norm",
        "relu",
        vocab_size=97,
        n_embd=48,
        n_layer=2,
        n_head=4,
        dff=112,
        n_positions=64,
        **_TOKENS,
    ),
    _decoder(
        "xglm",
        "XGLMModel",
        "pre-norm",
        vocab_size=97,
        d_model=48,
        ffn_dim=112,
        num_layers=2,
        attention_heads=4,
        max_position_embeddings=64,
        **_TOKENS,
    ),
)

_RMS_NORM = (
    _decoder("llama", "LlamaModel", "pre-norm", "gated", "rms", **_SIZES, quick=True),
    _decoder("mistral", "MistralModel", "pre-norm", "gated", "rms", **_HEADS),
    _decoder("gemma", "GemmaModel", "pre-norm", "gated", "(1 + w) norm", **_HEADS),
    _decoder("gemma2", "Gemma2Model", "sandwich norms", "gated", "(1 + w) norm", **_HEADS),
    _decoder("gemma3", "Gemma3TextModel", "sandwich norms", "gated", "per-head norms", **_HEADS),
    _decoder("qwen2", "Qwen2Model", "pre-norm", "gated", "rms", **_SIZES),
    _decoder("qwen3", "Qwen3Model", "pre-norm", "gated", "rms", "per-head norms", **_HEADS),
    _decoder(
        "qwen2-moe",
        "Qwen2MoeModel",
        "pre-norm",
        "gated",
        "rms",
        "shared expert",
        **_SIZES,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
        shared_expert_intermediate_size=80,
    ),
    _decoder("phi3", "Phi3Model", "pre-norm", "gated", "packed", "rms", **_SIZES),
    _decoder("olmo2", "Olmo2Model", "post-norm", "gated", "rms", **_SIZES),
    _decoder("granite", "GraniteModel", "pre-norm", "gated", "scaled residual", **_SIZES),
    _decoder("smollm3", "SmolLM3Model", "pre-norm", "gated", "rms", **_SIZES),
    _decoder("glm", "GlmModel", "pre-norm", "gated", "packed", "rms", **_HEADS),
    _decoder("glm4", "Glm4Model", "sandwich norms", "gated", "packed", "rms", **_HEADS),
    _decoder("helium", "HeliumModel", "pre-norm", "gated", "rms", **{**_SIZES, "head_dim": 12}),
    _decoder("exaone4", "Exaone4Model", "post-norm", "gated", "rms", **_SIZES),
    _decoder("arcee", "ArceeModel", "pre-norm", "relu2", "rms", **_SIZES),
    _decoder("apertus", "ApertusModel", "pre-norm", "xielu", "rms", **_SIZES),
)

DECODERS = _LAYER_NORM + _RMS_NORM
