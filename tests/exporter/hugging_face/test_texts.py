"""Texts as inputs of a model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

import ffn_export as fx
from ffn_export.core.quiet import silent
from ffn_export.errors import UsageError
from ffn_export.exporter.hugging_face.texts import Texts

INPUTS = {"input_ids": "int32", "attention_mask": "int64"}
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sat")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer"
    transformers.BertTokenizer(vocab={word: index for index, word in enumerate(WORDS)}).save_pretrained(path)
    return path


def test_lines_are_padded_to_one_length(tokenizer: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("a cat\n\na cat sat\n")
    arrays = Texts(lines).read(INPUTS, tokenizer)
    assert {name: (array.shape, array.dtype.name) for name, array in arrays.items()} == {
        "input_ids": ((2, 5), "int32"),
        "attention_mask": ((2, 5), "int64"),
    }
    assert arrays["attention_mask"].sum(axis=1).tolist() == [4, 5]


def test_what_is_missing_is_named(tokenizer: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    with pytest.raises(UsageError, match="cannot read"):
        Texts(lines).read(INPUTS, tokenizer)
    lines.write_text("\n \n")
    with pytest.raises(UsageError, match="has no text"):
        Texts(lines).read(INPUTS, tokenizer)
    lines.write_text("a cat")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="has no tokenizer"):
        Texts(lines).read(INPUTS, tmp_path / "empty")
    transformers.BertConfig().save_pretrained(tmp_path / "empty")
    with pytest.raises(UsageError, match="knows no word of"):
        Texts(lines).read(INPUTS, tmp_path / "empty")
    lines.write_text("a dog")
    assert Texts(lines).read(INPUTS, tokenizer)["input_ids"].tolist() == [[2, 5, 1, 3]]
    lines.write_text("dog dogs")
    with pytest.raises(UsageError, match="knows no word of"):
        Texts(lines).read(INPUTS, tokenizer)
    lines.write_text("a cat")
    with pytest.raises(UsageError, match="texts are read by a tokenizer"):
        Texts(lines).read(INPUTS, None)
    with pytest.raises(UsageError, match="does not give input 'pixels'"):
        Texts(lines, tokenizer).read({"pixels": "float32"}, None)


@pytest.mark.integration
def test_a_directory_is_built_by_texts(tokenizer: Path, tmp_path: Path) -> None:
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    torch.manual_seed(0)
    with silent():
        transformers.BertModel(config).save_pretrained(tokenizer)
    lines = tmp_path / "lines.txt"
    lines.write_text("a cat\na cat sat\n" * 6)
    built = fx.build(
        f"hf:{tokenizer}",
        samples=fx.Texts(lines),
        directory=tmp_path,
        name="mine",
        fast=True,
        runtimes=["ort-cpu"],
        quantization=fx.QuantizationOptions(int8=True),
    )
    assert built.quantization is not None
    assert built.quantization.error is not None
    assert 1e-5 < built.quantization.error < 0.1
    # The bundle has the tokenizer.
    again = fx.quantize(
        built.directory.parent / "mine",
        fx.QuantizationOptions(int8=True, all_products=True),
        samples=fx.Texts(lines),
        runtimes=["ort-cpu"],
    )
    assert again.passed
