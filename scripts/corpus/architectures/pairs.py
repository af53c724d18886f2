"""Encoders with decoders, of text and of sound."""

from __future__ import annotations

from typing import Any

from corpus.entry import Architecture, Input
from corpus.wrappers import EncoderDecoder, FeaturesDecoder, from_config

_INPUTS = {"input_ids": Input(("batch", "seq"), below=97), "decoder_input_ids": Input(("batch", "target"), below=97)}
_T5: dict[str, Any] = {
    "vocab_size": 97,
    "d_model": 48,
    "d_kv": 12,
    "d_ff": 112,
    "num_layers": 2,
    "num_heads": 4,
    "use_cache": False,
    "decoder_start_token_id": 0,
}
_BART: dict[str, Any] = {
    "vocab_size": 97,
    "d_model": 48,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 112,
    "decoder_ffn_dim": 80,
    "max_position_embeddings": 64,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}


def _pair(name: str, model: str, *tags: str, **config: Any) -> Architecture:
    build = from_config(EncoderDecoder, model, {"use_cache": False}, **config)
    return Architecture(name, ("encoder-decoder", *tags), build, _INPUTS, peer_type="t5" if "T5" in model else "bart")


_SPEECH: dict[str, Any] = {
    **_BART,
    "num_mel_bins": 16,
    "max_source_positions": 12,
    "max_target_positions": 32,
}

ENCODER_DECODERS = (
    _pair("t5", "T5Model", "pre-norm", "relu", "rms", **_T5),
    _pair("t5-gated", "T5Model", "pre-norm", "gated", "rms", **_T5, feed_forward_proj="gated-gelu"),
    _pair("mt5", "MT5Model", "pre-norm", "gated", "rms", **_T5),
    _pair("umt5", "UMT5Model", "pre-norm", "gated", "rms", **_T5),
    _pair("bart", "BartModel", "post-norm", **_BART),
    _pair("mbart", "MBartModel", "pre-norm", **_BART),
    _pair("marian", "MarianModel", "post-norm", **_BART),
    _pair("pegasus", "PegasusModel", "pre-norm", **_BART),
    _pair("m2m-100", "M2M100Model", "pre-norm", "relu", **_BART),
    _pair("blenderbot", "BlenderbotModel", "pre-norm", **_BART),
    Architecture(
        "whisper",
        ("encoder-decoder", "audio", "pre-norm"),
        from_config(FeaturesDecoder, "WhisperModel", {"use_cache": False}, **_SPEECH),
        {"input_features": Input(("batch", 16, 24)), "decoder_input_ids": Input(("batch", "target"), below=97)},
        peer_type="bart",
    ),
)
