"""Models of images and sound."""

from __future__ import annotations

from typing import Any

from corpus.entry import Architecture, Input
from corpus.wrappers import Ids, Pixels, Waves, from_config

_IMAGE = {"pixel_values": Input(("batch", 3, 32, 32))}
_WAVE = {"input_values": Input(("batch", "samples"))}
_SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
_PATCHES: dict[str, Any] = {**_SIZES, "image_size": 32, "patch_size": 8}
_SPEECH: dict[str, Any] = {
    **_SIZES,
    "conv_dim": (24, 24),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "vocab_size": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _vision(name: str, model: str, *tags: str, quick: bool = False, **config: Any) -> Architecture:
    build = from_config(Pixels, model, **config)
    peer_type = next((known for known in ("swin", "clip") if name.startswith(known)), "vit")
    return Architecture(name, ("vision", *tags), build, _IMAGE, peer_type=peer_type, quick=quick)


def _audio(name: str, model: str, *tags: str, **config: Any) -> Architecture:
    return Architecture(name, ("audio", *tags), from_config(Waves, model, **_SPEECH, **config), _WAVE)


SIGNALS = (
    _vision("vit", "ViTModel", "pre-norm", **_PATCHES, quick=True),
    _vision("deit", "DeiTModel", "pre-norm", **_PATCHES),
    _vision("dinov2", "Dinov2Model", "pre-norm", "layer scale", **_PATCHES),
    _vision("dinov2-swiglu", "Dinov2Model", "pre-norm", "gated", **_PATCHES, use_swiglu_ffn=True),
    _vision("beit", "BeitModel", "pre-norm", "layer scale", **_PATCHES, use_relative_position_bias=True),
    _vision("clip-vision", "CLIPVisionModel", "pre-norm", "quick gelu", **_PATCHES),
    _vision("siglip-vision", "SiglipVisionModel", "pre-norm", "tanh gelu", **_PATCHES),
    Architecture(
        "clip-text",
        ("encoder", "pre-norm", "quick gelu"),
        from_config(
            Ids,
            "CLIPTextModel",
            **_SIZES,
            vocab_size=97,
            max_position_embeddings=64,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        ),
        {"input_ids": Input(("batch", "seq"), below=97)},
    ),
    _vision(
        "swin",
        "SwinModel",
        "pre-norm",
        "windows",
        image_size=32,
        patch_size=2,
        embed_dim=16,
        depths=[1, 1],
        num_heads=[2, 4],
        window_size=4,
    ),
    _vision(
        "swinv2",
        "Swinv2Model",
        "post-norm",
        "windows",
        image_size=32,
        patch_size=2,
        embed_dim=16,
        depths=[1, 1],
        num_heads=[2, 4],
        window_size=4,
    ),
    _vision(
        "segformer",
        "SegformerModel",
        "pre-norm",
        "convolution",
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[16, 32],
        patch_sizes=[3, 3],
        strides=[2, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
    ),
    _vision(
        "convnext", "ConvNextModel", "channels last", hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, patch_size=4
    ),
    _vision(
        "convnextv2",
        "ConvNextV2Model",
        "channels last",
        hidden_sizes=[16, 32],
        depths=[1, 1],
        num_stages=2,
        patch_size=4,
    ),
    _vision(
        "pvt",
        "PvtModel",
        "pre-norm",
        hidden_sizes=[16, 32],
        depths=[1, 1],
        num_encoder_blocks=2,
        sequence_reduction_ratios=[2, 1],
        patch_sizes=[4, 2],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        image_size=32,
    ),
    Architecture(
        "audio-spectrogram-transformer",
        ("audio", "pre-norm"),
        from_config(
            Waves, "ASTModel", **_SIZES, patch_size=4, max_length=24, num_mel_bins=16, time_stride=4, frequency_stride=4
        ),
        {"input_values": Input(("batch", 24, 16))},
        peer_type="vit",
    ),
    _audio("wav2vec2", "Wav2Vec2Model", "post-norm"),
    _audio("wav2vec2-stable", "Wav2Vec2Model", "pre-norm", do_stable_layer_norm=True, feat_extract_norm="layer"),
    _audio("hubert", "HubertModel", "post-norm"),
    _audio("wavlm", "WavLMModel", "post-norm"),
    _audio("wav2vec2-conformer", "Wav2Vec2ConformerModel", "half-step residual", "swish"),
)
