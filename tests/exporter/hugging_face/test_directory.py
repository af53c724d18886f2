"""What is refused before anything is loaded: each in one line that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffn_export.errors import UsageError
from ffn_export.exporter.hugging_face.directory import open_directory
from ffn_export.exporter.source import resolve
from tests.exporter.helpers import refusal
from tests.exporter.hugging_face.conftest import Saved
from tests.exporter.hugging_face.models import edit_config


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("hf:", "names no directory: write hf:PATH"),
        (
            "hf:bert-base-uncased",
            "there is no directory 'bert-base-uncased', and nothing is downloaded: for a model of the Hub run "
            "`hf download bert-base-uncased --local-dir bert-base-uncased` first, then name hf:bert-base-uncased",
        ),
        ("hf:org/model", "run `hf download org/model --local-dir model` first, then name hf:model"),
        ("hf:/no/such/directory", "no such directory: /no/such/directory"),
    ],
)
def test_only_local_directories_are_taken(
    spec: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in refusal(UsageError, resolve, spec)


def test_a_home_directory_is_found(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = saved("BertModel")
    monkeypatch.setenv("HOME", str(directory.parent))
    assert open_directory("~/BertModel").path == directory


def test_a_file_is_no_directory(saved: Saved) -> None:
    weights = saved("BertModel") / "model.safetensors"
    assert "is a file: name the directory" in refusal(UsageError, resolve, f"hf:{weights}")


def test_a_directory_without_a_configuration_is_refused(copied: Saved) -> None:
    directory = copied("BertModel")
    (directory / "config.json").unlink()
    assert "is no Hugging Face model: it has no config.json" in refusal(UsageError, resolve, f"hf:{directory}")


@pytest.mark.parametrize(("text", "words"), [("{", "is no JSON"), ("[]", "is no JSON object")])
def test_a_configuration_that_is_none_is_refused(copied: Saved, text: str, words: str) -> None:
    directory = copied("BertModel")
    (directory / "config.json").write_text(text)
    assert words in refusal(UsageError, resolve, f"hf:{directory}")


@pytest.mark.parametrize(
    ("model_type", "words"),
    [
        (None, "has no model_type"),
        ("bret", "of model_type 'bret', which this version of transformers does not know; did you mean 'bert'?"),
    ],
)
def test_an_unknown_architecture_is_refused(copied: Saved, model_type: str | None, words: str) -> None:
    directory = copied("BertModel")
    edit_config(directory, model_type=model_type)
    assert words in refusal(UsageError, resolve, f"hf:{directory}")


def test_code_of_its_own_is_never_run(copied: Saved) -> None:
    directory = copied("BertModel")
    (directory / "modeling_own.py").write_text("raise SystemExit('it was run')")
    edit_config(directory, auto_map={"AutoModel": "modeling_own.Own"})
    words = "asks for code of its own (auto_map: modeling_own.Own), which is never run"
    assert words in refusal(UsageError, resolve, f"hf:{directory}")


def test_quantized_weights_are_refused(copied: Saved) -> None:
    directory = copied("BertModel")
    edit_config(directory, quantization_config={"quant_method": "gptq", "bits": 4})
    assert "describes quantized weights" in refusal(UsageError, resolve, f"hf:{directory}")


def test_an_adapter_is_refused(copied: Saved) -> None:
    directory = copied("BertModel")
    (directory / "adapter_config.json").write_text('{"base_model_name_or_path": "bert-base-uncased"}')
    assert "holds an adapter: merge it into its base model" in refusal(UsageError, resolve, f"hf:{directory}")


def test_a_directory_without_weights_is_refused_with_what_it_has(copied: Saved) -> None:
    directory = copied("BertModel")
    (directory / "model.safetensors").rename(directory / "tf_model.h5")
    words = (
        "has no weights: it needs model.safetensors or pytorch_model.bin, in one file or sharded (it has tf_model.h5)"
    )
    assert words in refusal(UsageError, resolve, f"hf:{directory}")


def test_a_pointer_is_not_taken_for_weights(copied: Saved) -> None:
    directory = copied("BertModel")
    (directory / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert "is a pointer of Git LFS and not the weights: run `git lfs pull`" in refusal(
        UsageError, resolve, f"hf:{directory}"
    )


def test_companions_are_those_that_are_there(copied: Saved) -> None:
    directory = copied("GPT2LMHeadModel")
    for name in ("vocab.json", "merges.txt", "training_args.bin"):
        (directory / name).write_text("{}")
    assert set(open_directory(str(directory)).companions()) == {
        "config.json",
        "generation_config.json",
        "vocab.json",
        "merges.txt",
    }
