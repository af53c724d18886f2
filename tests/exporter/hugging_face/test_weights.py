"""Weights are read as tensors, and what the files do not hold is never made up."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

from ffn_export.core.quiet import silent
from ffn_export.errors import UsageError
from ffn_export.exporter.source import resolve
from tests.exporter.helpers import refusal
from tests.exporter.hugging_face.conftest import Saved
from tests.exporter.hugging_face.models import as_bin, edit_config, edit_weights

pytestmark = pytest.mark.usefixtures("shell_words")


def test_the_weights_are_those_of_the_file_in_float32(copied: Saved) -> None:
    directory = copied("BertModel")
    stored = load_file(directory / "model.safetensors")
    half = {name: tensor.half() for name, tensor in stored.items()}
    edit_weights(directory, **{name.replace(".", "__"): tensor for name, tensor in half.items()})
    edit_config(directory, dtype="float16")
    source = resolve(f"hf:{directory}")
    assert not source.module.training
    for name, parameter in source.module.named_parameters():
        torch.testing.assert_close(parameter.data, half[name].float(), rtol=0, atol=0)


@pytest.mark.integration
def test_bin_weights_are_read(saved: Saved, copied: Saved) -> None:
    directory = copied("BertForMaskedLM")
    as_bin(directory)
    expected, source = resolve(f"hf:{saved('BertForMaskedLM')}"), resolve(f"hf:{directory}")
    for want, have in zip(expected.module.parameters(), source.module.parameters(), strict=True):
        assert torch.equal(want, have)


def test_sharded_weights_are_read(saved: Saved, tmp_path: Path) -> None:
    with silent():
        transformers.AutoModel.from_pretrained(saved("BertModel")).save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    expected, source = resolve(f"hf:{saved('BertModel')}"), resolve(f"hf:{tmp_path}")
    for want, have in zip(expected.module.parameters(), source.module.parameters(), strict=True):
        assert torch.equal(want, have)


class Harmful:
    """Writes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_pickled_code_is_not_run(copied: Saved, tmp_path: Path) -> None:
    directory, trace = copied("BertModel"), tmp_path / "it was run"
    as_bin(directory, harm=Harmful(trace))
    message = refusal(UsageError, resolve, f"hf:{directory}")
    assert "hold more than tensors, and pickled code is never run" in message
    assert "save the model as safetensors where you trust it" in message
    assert not trace.exists()


def test_broken_weights_are_refused(copied: Saved) -> None:
    directory = copied("BertModel")
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    assert "transformers cannot load" in refusal(UsageError, resolve, f"hf:{directory}")


def test_a_missing_shard_is_refused(copied: Saved) -> None:
    directory = copied("BertModel")
    (directory / "model.safetensors").unlink()
    (directory / "model.safetensors.index.json").write_text(
        '{"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": "model-00001-of-00002.safetensors"}}'
    )
    assert "transformers cannot load" in refusal(UsageError, resolve, f"hf:{directory}")


def test_a_missing_tensor_is_not_made_up(copied: Saved) -> None:
    directory = copied("BertModel")
    edit_weights(directory, encoder__layer__1__output__dense__bias=None)
    words = "are not all there: 1 tensors are missing, such as encoder.layer.1.output.dense.bias"
    assert words in refusal(UsageError, resolve, f"hf:{directory}")


def test_a_tensor_of_another_shape_is_refused(copied: Saved) -> None:
    directory = copied("BertModel")
    edit_config(directory, vocab_size=100)
    message = refusal(UsageError, resolve, f"hf:{directory}")
    assert message.startswith("1 of the weights in ")
    assert message.endswith("asks for: embeddings.word_embeddings.weight is [99, 32], expected [100, 32]")


def test_more_layers_than_the_configuration_says_are_refused(copied: Saved) -> None:
    directory = copied("BertForMaskedLM")
    edit_config(directory, num_hidden_layers=1)
    words = "have more layers than config.json says: 16 tensors would be left out, such as bert.encoder.layer.1."
    assert words in refusal(UsageError, resolve, f"hf:{directory}")


@pytest.mark.parametrize(
    ("name", "task", "held"),
    [
        ("BertForMaskedLM", "question-answering", "feature-extraction or fill-mask"),
        ("BertForMaskedLM", "text-classification", "feature-extraction or fill-mask"),
        ("BertModel", "fill-mask", "feature-extraction"),
        ("BertForQuestionAnswering", "fill-mask", "feature-extraction or question-answering"),
        (
            "GPT2LMHeadModel",
            "text-classification",
            "feature-extraction or text-generation or text-generation-with-past",
        ),
        ("ViTModel", "image-classification", "feature-extraction"),
    ],
)
def test_a_head_that_the_weights_do_not_hold_is_refused(saved: Saved, name: str, task: str, held: str) -> None:
    message = refusal(UsageError, resolve, f"hf:{saved(name)}", task=task)
    assert f"hold no head for {task} (" in message
    assert message.endswith(f"use --task {held}")


def test_a_base_model_does_without_the_pooler_that_another_task_did_not_train(saved: Saved) -> None:
    source = resolve(f"hf:{saved('BertForMaskedLM')}", task="feature-extraction")
    assert not [name for name, _ in source.module.named_parameters() if "pooler" in name]
    assert [name for name, _ in resolve(f"hf:{saved('BertModel')}").module.named_parameters() if "pooler" in name]
