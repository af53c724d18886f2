"""Texts as inputs of a model."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import transformers

from ffn_export.errors import UsageError
from ffn_export.exporter.hugging_face.texts import read_texts


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sat")
    transformers.BertTokenizer(vocab={word: index for index, word in enumerate(words)}).save_pretrained(
        tmp_path / "tokenizer"
    )
    inputs = "int32[b,s] input_ids, int64[b,s] attention_mask"
    body = "{ y = Identity(attention_mask) }"
    text = f'<ir_version: 10, opset_import: ["" : 20]> g ({inputs}) => (int64[b,s] y) {body}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    return tmp_path


def test_lines_are_padded_to_one_length(directory: Path) -> None:
    lines = directory / "lines.txt"
    lines.write_text("a cat\n\na cat sat\n")
    arrays = read_texts(lines, directory / "tokenizer", directory / "model.onnx")
    assert {name: (array.shape, array.dtype.name) for name, array in arrays.items()} == {
        "input_ids": ((2, 5), "int32"),
        "attention_mask": ((2, 5), "int64"),
    }
    assert arrays["attention_mask"].sum(axis=1).tolist() == [4, 5]


def test_what_is_missing_is_named(directory: Path) -> None:
    lines = directory / "lines.txt"
    with pytest.raises(UsageError, match="cannot read"):
        read_texts(lines, directory / "tokenizer", directory / "model.onnx")
    lines.write_text("\n \n")
    with pytest.raises(UsageError, match="has no text"):
        read_texts(lines, directory / "tokenizer", directory / "model.onnx")
    lines.write_text("a cat")
    (directory / "empty").mkdir()
    with pytest.raises(UsageError, match="has no tokenizer"):
        read_texts(lines, directory / "empty", directory / "model.onnx")
    pixels = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[b,3] pixels) => (float[b,3] y) { y = Identity(pixels) }'
    )
    onnx.save(pixels, directory / "model.onnx")
    with pytest.raises(UsageError, match="does not give input 'pixels'"):
        read_texts(lines, directory / "tokenizer", directory / "model.onnx")
