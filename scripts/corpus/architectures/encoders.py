"""Encoders of text."""

from __future__ import annotations

from typing import Any

from corpus.entry import Architecture, Input
from corpus.wrappers import Ids, IdsBoxes, IdsMask, from_config

_IDS = Input(("batch", "seq"), below=97)
_MASKED = {"input_ids": _IDS, "attention_mask": Input(("batch", "seq"), is_mask=True)}
_SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}


def _encoder(name: str, model: str, *tags: str, quick: bool = False, **config: Any) -> Architecture:
    build = from_config(IdsMask, model, **{**_SIZES, **config})
    return Architecture(name, ("encoder", *tags), build, _MASKED, quick=quick)


_DISTILBERT = from_config(
    IdsMask, "DistilBertModel", vocab_size=97, dim=48, hidden_dim=112, n_layers=2, n_heads=4, max_position_embeddings=64
)
_FUNNEL = from_config(
    IdsMask,
    "FunnelModel",
    vocab_size=97,
    block_sizes=[1, 1],
    num_decoder_layers=1,
    d_model=48,
    n_head=4,
    d_head=12,
    d_inner=112,
)
_MOBILEBERT: dict[str, Any] = {"embedding_size": 32, "intra_bottleneck_size": 24, "true_hidden_size": 24}
_FNET = from_config(Ids, "FNetModel", **{k: v for k, v in _SIZES.items() if k != "num_attention_heads"})
_XLNET = from_config(
    IdsMask, "XLNetModel", {"use_mems": False}, vocab_size=97, d_model=48, n_layer=2, n_head=4, d_inner=112
)
_XLM = from_config(IdsMask, "XLMModel", vocab_size=97, emb_dim=48, n_layers=2, n_heads=4, max_position_embeddings=64)

ENCODERS = (
    _encoder("bert", "BertModel", "post-norm", quick=True),
    _encoder("roberta", "RobertaModel", "post-norm"),
    Architecture("distilbert", ("encoder", "post-norm"), _DISTILBERT, _MASKED),
    _encoder("albert", "AlbertModel", "post-norm", "shared weights", embedding_size=24),
    _encoder("electra", "ElectraModel", "post-norm", embedding_size=24),
    _encoder("deberta", "DebertaModel", "post-norm", "decomposed norm"),
    _encoder(
        "deberta-v2",
        "DebertaV2Model",
        "post-norm",
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=8,
    ),
    _encoder("mpnet", "MPNetModel", "post-norm"),
    _encoder("xlm-roberta", "XLMRobertaModel", "post-norm"),
    _encoder("xlm-roberta-xl", "XLMRobertaXLModel", "pre-norm"),
    _encoder("roberta-prelayernorm", "RobertaPreLayerNormModel", "pre-norm"),
    _encoder("camembert", "CamembertModel", "post-norm"),
    Architecture("xlm", ("encoder", "post-norm"), _XLM, _MASKED),
    Architecture("xlnet", ("encoder", "post-norm"), _XLNET, _MASKED, exporter="torchscript", opset=17),
    Architecture(
        "layoutlm",
        ("encoder", "post-norm"),
        from_config(IdsBoxes, "LayoutLMModel", **_SIZES),
        {"input_ids": _IDS, "bbox": Input(("batch", "seq", 4), below=2)},
    ),
    _encoder("squeezebert", "SqueezeBertModel", "post-norm", "convolution", embedding_size=48),
    _encoder("mobilebert", "MobileBertModel", "no norm", "relu", **_MOBILEBERT),
    _encoder("mobilebert-layernorm", "MobileBertModel", "relu", normalization_type="layer_norm", **_MOBILEBERT),
    Architecture(
        "funnel",
        ("encoder", "post-norm"),
        _FUNNEL,
        _MASKED,
        skipped="dynamo specialises the sequence; TorchScript's graph is wrong at other sizes",
    ),
    _encoder("nystromformer", "NystromformerModel", "post-norm", num_landmarks=4, segment_means_seq_len=4),
    Architecture("fnet", ("encoder", "post-norm"), _FNET, {"input_ids": _IDS}),
    _encoder("convbert", "ConvBertModel", "post-norm", embedding_size=48),
    _encoder("rembert", "RemBertModel", "post-norm", input_embedding_size=24, output_embedding_size=24),
    _encoder("roformer", "RoFormerModel", "post-norm", embedding_size=48),
    _encoder("ernie", "ErnieModel", "post-norm"),
    _encoder("megatron-bert", "MegatronBertModel", "pre-norm"),
    _encoder("esm", "EsmModel", "pre-norm", pad_token_id=0, mask_token_id=3, position_embedding_type="rotary"),
    _encoder("ibert", "IBertModel", "post-norm"),
    _encoder("data2vec-text", "Data2VecTextModel", "post-norm"),
    _encoder(
        "modernbert",
        "ModernBertModel",
        "pre-norm",
        "gated",
        "packed",
        "no bias",
        quick=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    ),
)
