"""Texts as inputs of a model, by a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.types import Array
from ffn_export.errors import UsageError
from ffn_export.exporter.hugging_face.library import transformers

# Longer texts are cut, unless the tokenizer cuts them earlier.
_LONGEST = 512


@dataclass(frozen=True)
class Texts:
    """Samples as texts, one a line; empty lines are skipped.

    Attributes:
        file: The text file.
        tokenizer: Directory of the tokenizer; None means that of the model.

    Examples:
        >>> fx.Texts("lines.txt").tokenizer is None
        True
    """

    file: Path | str
    tokenizer: Path | str | None = None

    def read(self, inputs: Mapping[str, str], beside: Path | None) -> dict[str, Array]:
        """Return the texts as the inputs of a model, padded to one length.

        Args:
            inputs: Name of an input -> its dtype.
            beside: Directory of the model; None if it has none.

        Raises:
            UsageError: If the file cannot be read, has no text, or the tokenizer knows none of its words or does not
                give the model's inputs.
        """
        try:
            lines = [line for line in Path(self.file).read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {self.file}: {getattr(error, 'strerror', None) or error}") from error
        if not lines:
            raise UsageError(f"{self.file} has no text")
        directory = self.tokenizer or beside
        if directory is None:
            raise UsageError("texts are read by a tokenizer: name its directory with --tokenizer")
        try:
            tokenizer: Any = transformers().AutoTokenizer.from_pretrained(directory, local_files_only=True)
        except (OSError, ValueError) as error:
            raise UsageError(f"{directory} has no tokenizer: name its directory with --tokenizer") from error
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        longest = min(tokenizer.model_max_length, _LONGEST)
        read = dict(tokenizer(lines, padding=True, truncation=True, max_length=longest, return_tensors="np"))
        if not np.isin(read["input_ids"], tokenizer.all_special_ids, invert=True).any():
            # transformers makes up an empty tokenizer for a directory that has a config.json alone.
            raise UsageError(
                f"the tokenizer in {directory} knows no word of {self.file}: name the directory of the model's with "
                "--tokenizer"
            )
        read.setdefault("token_type_ids", np.zeros_like(read["input_ids"]))
        missing = [name for name in inputs if name not in read]
        if missing:
            raise UsageError(f"the tokenizer does not give input {missing[0]!r}: take --samples")
        return {name: np.asarray(read[name]).astype(numpy_dtype(dtype)) for name, dtype in inputs.items()}
