"""Files that ship beside a model as they are: its configuration, its tokenizer, its image processor."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from ffn_export.errors import UsageError


def copy(files: Mapping[str, Path], directory: Path) -> None:
    """Copy what the files hold, links followed, under their names.

    Raises:
        UsageError: If one cannot be read.
    """
    for name, path in files.items():
        try:
            content = path.open("rb")
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
        with content, (directory / name).open("wb") as target:
            shutil.copyfileobj(content, target)
