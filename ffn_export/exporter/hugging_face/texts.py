"""Texts as inputs of a model, by the tokenizer in its directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ffn_export.core import onnx_file
from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.types import Array
from ffn_export.errors import UsageError
from ffn_export.exporter.hugging_face.library import transformers

# Longer texts are cut, unless the tokenizer cuts them earlier.
_LONGEST = 512


def read_texts(path: Path, directory: Path, model: Path) -> dict[str, Array]:
    """Return the lines of a file as the inputs of a model, padded to one length.

    Args:
        path: A text file; empty lines are skipped.
        directory: Directory of the tokenizer.
        model: The ONNX file or bundle whose inputs are asked for.

    Raises:
        UsageError: If the file cannot be read, has no text, or the tokenizer does not give the model's inputs.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    if not lines:
        raise UsageError(f"{path} has no text")
    try:
        tokenizer: Any = transformers().AutoTokenizer.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"{directory} has no tokenizer: name its directory with --tokenizer") from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    longest = min(tokenizer.model_max_length, _LONGEST)
    read = dict(tokenizer(lines, padding=True, truncation=True, max_length=longest, return_tensors="np"))
    inputs = onnx_file.load(model / "model.onnx" if model.is_dir() else model).graph.inputs
    wanted = {str(value.name): value.dtype for value in inputs}
    missing = [name for name in wanted if name not in read and name != "token_type_ids"]
    if missing:
        raise UsageError(f"the tokenizer does not give input {missing[0]!r}: take --samples")
    read.setdefault("token_type_ids", np.zeros_like(read["input_ids"]))
    return {
        name: np.asarray(read[name]).astype(numpy_dtype(dtype.name.lower()) if dtype is not None else np.int64)
        for name, dtype in wanted.items()
    }
