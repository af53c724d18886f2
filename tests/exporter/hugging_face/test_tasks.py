"""Which task a model is exported for, and what is said where it cannot be."""

from __future__ import annotations

import pytest

from ffn_export.errors import UsageError
from ffn_export.exporter.hugging_face.directory import open_directory
from ffn_export.exporter.hugging_face.tasks import TASKS, choose
from ffn_export.exporter.source import resolve
from tests.exporter.helpers import refusal
from tests.exporter.hugging_face.conftest import Saved
from tests.exporter.hugging_face.models import edit_config

pytestmark = pytest.mark.usefixtures("shell_words")


@pytest.mark.parametrize(
    ("name", "task", "maker"),
    [
        ("BertModel", "feature-extraction", "AutoModel"),
        ("BertForMaskedLM", "fill-mask", "AutoModelForMaskedLM"),
        ("BertForSequenceClassification", "text-classification", "AutoModelForSequenceClassification"),
        ("BertForQuestionAnswering", "question-answering", "AutoModelForQuestionAnswering"),
        ("GPT2LMHeadModel", "text-generation", "AutoModelForCausalLM"),
        ("T5ForConditionalGeneration", "text2text-generation", "AutoModelForSeq2SeqLM"),
        ("T5EncoderModel", "feature-extraction", "AutoModelForTextEncoding"),
        ("ViTForImageClassification", "image-classification", "AutoModelForImageClassification"),
        ("WhisperForConditionalGeneration", "automatic-speech-recognition", "AutoModelForSpeechSeq2Seq"),
        ("Wav2Vec2ForCTC", "automatic-speech-recognition", "AutoModelForCTC"),
    ],
)
def test_the_saved_class_says_the_task(saved: Saved, name: str, task: str, maker: str) -> None:
    assert choose(open_directory(str(saved(name))), None) == (TASKS[task], maker)


def test_without_a_saved_class_it_is_the_base_model(copied: Saved) -> None:
    directory = copied("BertModel")
    edit_config(directory, architectures=None)
    assert choose(open_directory(str(directory)), None)[0].name == "feature-extraction"


def test_optimums_other_names_are_known(saved: Saved) -> None:
    directory = open_directory(str(saved("BertForMaskedLM")))
    assert choose(directory, "masked-lm")[0].name == "fill-mask"
    assert choose(directory, "sequence-classification")[0].name == "text-classification"


@pytest.mark.parametrize(
    ("name", "task", "words"),
    [
        ("BertForMaskedLM", "fil-mask", "unknown task 'fil-mask'; did you mean 'fill-mask'?"),
        ("BertForMaskedLM", "text-generation", "a bert model does not do text-generation: it can be exported for"),
        ("BartForConditionalGeneration", "text-generation", "a bart model does not do text-generation"),
        ("GPT2LMHeadModel", "fill-mask", "it can be exported for feature-extraction, text-generation, "),
        (
            "GPT2LMHeadModel",
            "fill-mask-with-past",
            "asks for a cache, which only text-generation-with-past has: use fill-mask, which computes every token",
        ),
        (
            "BertForMaskedLM",
            "text-generation-with-past",
            "a bert model does not do text-generation-with-past: it can be exported for",
        ),
        ("T5ForConditionalGeneration", "causal-lm-with-past", "a t5 model does not do text-generation-with-past"),
        (
            "MambaForCausalLM",
            "text-generation-with-past",
            "MambaForCausalLM returns no past_key_values, and a cache holds the keys and values of each layer: use",
        ),
    ],
)
def test_a_task_that_cannot_be_is_refused(saved: Saved, name: str, task: str, words: str) -> None:
    assert words in refusal(UsageError, resolve, f"hf:{saved(name)}", task=task)


def test_a_model_that_does_nothing_of_it_is_refused(copied: Saved) -> None:
    directory = copied("BertModel")
    edit_config(directory, model_type="vision-encoder-decoder")
    assert "do none of the tasks that can be exported" in refusal(UsageError, resolve, f"hf:{directory}")


@pytest.mark.parametrize("name", ["past_key_values", "past_key_values.0.key", "use_cache"])
def test_a_cache_among_the_inputs_is_refused(saved: Saved, name: str) -> None:
    inputs = ["input_ids:int64[batch,seq]", f"{name}:float32[batch,4,past,8]"]
    words = f"input {name!r} is of a cache: leave it out and use --task text-generation-with-past"
    assert words in refusal(UsageError, resolve, f"hf:{saved('GPT2LMHeadModel')}", inputs)


def test_a_task_is_for_model_directories() -> None:
    assert "a task is for hf:DIR" in refusal(UsageError, resolve, "bert-ffn", task="fill-mask")
