"""The inputs that a model has by convention."""

from __future__ import annotations

import json

import pytest

from ffn_export.errors import UsageError
from ffn_export.exporter.source import resolve
from tests.exporter.helpers import refusal
from tests.exporter.hugging_face.conftest import Saved
from tests.exporter.hugging_face.models import edit_config

pytestmark = pytest.mark.usefixtures("shell_words")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        (
            "BertModel",
            {
                "input_ids": "int64[batch,seq<=64]{0..98}",
                "attention_mask": "int64[batch,seq<=64]{mask}",
                "token_type_ids": "int64[batch,seq<=64]{0..1}",
            },
        ),
        # It counts positions from behind the row for padding, and has one token type only.
        (
            "RobertaForMaskedLM",
            {"input_ids": "int64[batch,seq<=64]{0..98}", "attention_mask": "int64[batch,seq<=64]{mask}"},
        ),
        (
            "GPT2LMHeadModel",
            {
                "input_ids": "int64[batch,seq<=64]{0..98}",
                "attention_mask": "int64[batch,seq<=64]{mask}",
                "position_ids": "int64[batch,seq<=64]{0..63}",
            },
        ),
        (
            "LlamaForCausalLM",
            {
                "input_ids": "int64[batch,seq<=1024]{0..98}",
                "attention_mask": "int64[batch,seq<=1024]{mask}",
                "position_ids": "int64[batch,seq<=1024]{0..511}",
            },
        ),
        (
            "T5ForConditionalGeneration",
            {
                "input_ids": "int64[batch,seq]{0..98}",
                "attention_mask": "int64[batch,seq]{mask}",
                "decoder_input_ids": "int64[batch,decoder_seq]{0..98}",
            },
        ),
        ("T5EncoderModel", {"input_ids": "int64[batch,seq]{0..98}", "attention_mask": "int64[batch,seq]{mask}"}),
        (
            "BartForConditionalGeneration",
            {
                "input_ids": "int64[batch,seq<=64]{0..98}",
                "attention_mask": "int64[batch,seq<=64]{mask}",
                "decoder_input_ids": "int64[batch,decoder_seq<=64]{0..98}",
            },
        ),
        ("ViTForImageClassification", {"pixel_values": "float32[1<=batch,3,32,32]"}),
        (
            "WhisperForConditionalGeneration",
            {"input_features": "float32[batch,8,60]", "decoder_input_ids": "int64[batch,decoder_seq<=20]{0..98}"},
        ),
        ("Wav2Vec2ForCTC", {"input_values": "float32[batch,30<=samples]"}),
    ],
)
def test_conventional_inputs(saved: Saved, name: str, inputs: dict[str, str]) -> None:
    assert {spec.name: str(spec) for spec in resolve(f"hf:{saved(name)}").inputs} == inputs


def test_a_source_says_what_it_is(saved: Saved) -> None:
    source = resolve(f"hf:{saved('BertForMaskedLM')}")
    assert (source.name, source.kind, source.task) == ("BertForMaskedLM", "hugging_face", "fill-mask")
    assert source.reference.startswith("BertForMaskedLM of transformers 5.")
    assert set(source.companions) == {"config.json"}


def test_own_inputs_take_the_place_of_the_convention(saved: Saved) -> None:
    inputs = ["input_ids:int64[1,seq<=8]", "attention_mask:int64[1,seq]"]
    source = resolve(f"hf:{saved('BertModel')}", inputs)
    assert {spec.name: str(spec) for spec in source.inputs} == {
        "input_ids": "int64[1,seq<=8]{0..98}",
        "attention_mask": "int64[1,seq<=8]{0..1}",
    }


@pytest.mark.parametrize(
    ("processor", "shape"),
    [
        ({"size": {"height": 24, "width": 16}}, "float32[1<=batch,3,24,16]"),
        ({"size": {"shortest_edge": 24}}, "float32[1<=batch,3,24,24]"),
        ({"size": 24}, "float32[1<=batch,3,24,24]"),
        ({"size": {"shortest_edge": 36}, "do_center_crop": True, "crop_size": 24}, "float32[1<=batch,3,24,24]"),
    ],
)
def test_the_size_of_a_picture_may_be_the_processors(copied: Saved, processor: object, shape: str) -> None:
    directory = copied("ResNetForImageClassification")
    (directory / "preprocessor_config.json").write_text(json.dumps(processor))
    assert [str(spec) for spec in resolve(f"hf:{directory}").inputs] == [shape]


def test_without_any_size_it_has_to_be_given(saved: Saved) -> None:
    directory = saved("ResNetForImageClassification")
    words = "says how large a picture is, for which there is no convention: write each input with --input"
    assert words in refusal(UsageError, resolve, f"hf:{directory}")
    source = resolve(f"hf:{directory}", ["pixel_values:float32[batch,3,24,24]"])
    assert [str(spec) for spec in source.inputs] == ["float32[batch,3,24,24]"]


def test_text_and_pictures_together_have_no_convention(saved: Saved) -> None:
    words = "CLIPModel takes text and pictures, for which there is no convention: write each input with --input"
    assert words in refusal(UsageError, resolve, f"hf:{saved('CLIPModel')}")


def test_a_bound_of_the_configuration_that_is_none_bounds_nothing(copied: Saved) -> None:
    directory = copied("T5EncoderModel")
    edit_config(directory, max_position_embeddings=-1)
    assert str(resolve(f"hf:{directory}").inputs[0]) == "int64[batch,seq]{0..98}"
