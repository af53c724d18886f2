from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import nn

from ffn_export.errors import UsageError
from ffn_export.modules import (
    PRESETS,
    ConvFeedForward,
    FeedForward,
    GatedFeedForward,
    OffsetRMSNorm,
    create,
    get_preset,
)

TwinError = Callable[..., float]

# Widths and activation.
FEED_FORWARDS = {
    "apx-ffn": (512, 2048, "relu"),
    "apx-ffn-residual": (512, 2048, "relu"),
    "nlp-transformers-ffn": (768, 3072, "gelu"),
    "nlp-transformers-conv": (768, 3072, "gelu"),
    "numpy-ffn": (512, 2048, "relu"),
    "d2l-ffn": (4, 8, "relu"),
    "d2l-ffn-addnorm": (4, 8, "relu"),
    "transformer-base": (512, 2048, "relu"),
    "transformer-big": (1024, 4096, "relu"),
    "bert-ffn": (768, 3072, "gelu"),
    "gpt2-ffn": (768, 3072, "gelu_tanh"),
    "t5-ffn": (512, 2048, "relu"),
    "llama-ffn": (768, 2048, "gated silu"),
    "gemma-ffn": (768, 2048, "gated gelu_tanh"),
}
ALL = ["d2l-addnorm", *FEED_FORWARDS]


def leading_shapes(name: str) -> list[tuple[int, ...]]:
    if name == "nlp-transformers-conv":
        return [(2, 3), (0, 3)]
    if name == "d2l-addnorm":
        return [(3,), (2, 3), (0, 3), (2, 1, 3)]
    return [(), (3,), (2, 3), (0, 3), (2, 1, 2)]


def test_the_presets_are_these() -> None:
    assert sorted(PRESETS) == sorted(ALL)
    for name, preset in PRESETS.items():
        assert preset.name == name
        assert preset.source
        assert preset.outputs == ("y",)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_agrees_with_its_twin_in_float64(name: str, twin_error: TwinError) -> None:
    module = create(name)
    width = 4 if name == "d2l-addnorm" else FEED_FORWARDS[name][0]
    for leading in leading_shapes(name):
        shapes = [(*leading, width)] * len(PRESETS[name].inputs)
        assert twin_error(module, *shapes) <= 1e-12


@pytest.mark.parametrize("name", FEED_FORWARDS)
def test_widths_are_those_of_the_summary_and_the_input(name: str) -> None:
    d_model, d_ff, _ = FEED_FORWARDS[name]
    first = next(each for each in create(name).modules() if isinstance(each, (nn.Linear, nn.Conv1d)))
    assert first.weight.shape[:2] == (d_ff, d_model)
    assert dict(PRESETS[name].inputs) == {"x": f"float32[batch,seq,{d_model}]"}
    if name.startswith("d2l"):
        assert PRESETS[name].example == {"batch": 2, "seq": 3}
    else:
        expected = {"batch": 64, "seq": 10} if name == "numpy-ffn" else {"batch": 8, "seq": 128}
        assert PRESETS[name].example == expected


def test_d2l_addnorm_has_two_inputs_with_one_dynamic_axis() -> None:
    preset = get_preset("d2l-addnorm")
    assert list(preset.inputs.items()) == [("x", "float32[batch,3,4]"), ("sublayer", "float32[batch,3,4]")]
    assert preset.example == {"batch": 2}


@pytest.mark.parametrize(
    ("name", "kind", "eps"),
    [
        ("transformer-base", nn.LayerNorm, 1e-5),
        ("transformer-big", nn.LayerNorm, 1e-5),
        ("bert-ffn", nn.LayerNorm, 1e-12),
        ("gpt2-ffn", nn.LayerNorm, 1e-5),
        ("d2l-addnorm", nn.LayerNorm, 1e-5),
        ("d2l-ffn-addnorm", nn.LayerNorm, 1e-5),
        ("t5-ffn", nn.RMSNorm, 1e-6),
        ("llama-ffn", nn.RMSNorm, 1e-6),
        ("gemma-ffn", OffsetRMSNorm, 1e-6),
    ],
)
def test_norms_are_of_their_kind_and_not_trivial(name: str, kind: type[nn.Module], eps: float) -> None:
    (norm,) = [each for each in create(name).modules() if isinstance(each, (nn.LayerNorm, nn.RMSNorm))]
    assert type(norm) is kind
    assert norm.eps == eps
    neutral = 0.0 if kind is OffsetRMSNorm else 1.0
    assert (norm.weight != neutral).all()
    if isinstance(norm, nn.LayerNorm):
        assert (norm.bias != 0).all()


@pytest.mark.parametrize("name", FEED_FORWARDS)
def test_activations(name: str) -> None:
    kinds = (FeedForward, ConvFeedForward, GatedFeedForward)
    (ff,) = [each for each in create(name).modules() if isinstance(each, kinds)]
    gated = "gated " if isinstance(ff, GatedFeedForward) else ""
    assert gated + ff.activation_name == FEED_FORWARDS[name][2]


@pytest.mark.parametrize("name", ["gpt2-ffn", "t5-ffn", "llama-ffn", "gemma-ffn"])
def test_pre_norm_presets_register_the_norm_first(name: str) -> None:
    kinds = [each for each in create(name).modules() if isinstance(each, (nn.Linear, nn.LayerNorm, nn.RMSNorm))]
    assert isinstance(kinds[0], (nn.LayerNorm, nn.RMSNorm))
    assert all(isinstance(each, nn.Linear) for each in kinds[1:])


@pytest.mark.parametrize("name", ["t5-ffn", "llama-ffn", "gemma-ffn"])
def test_presets_without_biases(name: str) -> None:
    assert not [each for each, _ in create(name).named_parameters() if each.endswith("bias")]


def test_convolution_form_is_the_linear_form_of_the_same_seed() -> None:
    linear, conv = create("nlp-transformers-ffn", seed=5), create("nlp-transformers-conv", seed=5)
    assert isinstance(conv, ConvFeedForward)
    x = torch.randn(1, 5, 768, dtype=torch.float64)
    torch.testing.assert_close(conv.double()(x), linear.double()(x), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ALL)
def test_same_seed_same_weights_other_seed_others(name: str) -> None:
    def weights(seed: int | None = None) -> dict[str, torch.Tensor]:
        return dict(create(name, seed).state_dict())

    default, again, other = weights(), weights(PRESETS[name].seed), weights(1)
    assert all(torch.equal(default[key], again[key]) for key in default)
    assert not any(torch.equal(default[key], other[key]) for key in default if default[key].any())


def test_the_factory_after_seeding_makes_the_same_module() -> None:
    torch.manual_seed(11)
    by_hand = PRESETS["d2l-ffn-addnorm"].factory().state_dict()
    torch.testing.assert_close(dict(by_hand), dict(create("d2l-ffn-addnorm", 11).state_dict()), rtol=0, atol=0)


def test_create_is_in_eval_mode_float32_on_the_cpu() -> None:
    with torch.device("meta"):
        module = create("d2l-ffn-addnorm")
    assert not any(each.training for each in module.modules())
    assert {(each.dtype, each.device.type) for each in module.parameters()} == {(torch.float32, "cpu")}


def test_create_leaves_the_global_generators_alone() -> None:
    torch.manual_seed(42)
    random.seed(42)
    before, python_before = torch.get_rng_state(), random.getstate()
    create("d2l-ffn-addnorm", seed=9)
    assert torch.equal(torch.get_rng_state(), before)
    assert random.getstate() == python_before


def test_unknown_preset_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown preset 'bert-fnn': did you mean 'bert-ffn'\?"):
        create("bert-fnn")


@pytest.mark.parametrize("seed", [2**63, -1, 1.5])
def test_a_seed_from_which_no_inputs_can_be_drawn_is_refused(seed: int) -> None:
    with pytest.raises(UsageError, match="seed must be a whole number from 0 to"):
        create("d2l-ffn", seed)
