"""Companion files of a model, copied unchanged: configuration, tokenizer, image processor."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from ffn_export.errors import UsageError


def copy(files: Mapping[str, Path], directory: Path) -> None:
    """Copy the contents of files to a directory, following links.

    Raises:
        UsageError: If a file cannot be read.
    """
    for name, path in files.items():
        try:
            content = path.open("rb")
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
        with content, (directory / name).open("wb") as target:
            shutil.copyfileobj(content, target)
