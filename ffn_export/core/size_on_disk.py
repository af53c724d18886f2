"""Size of a model on disk. Time and memory limits grow with it, not with the sizes that the model declares."""

from __future__ import annotations

import stat
from pathlib import Path

from ffn_export.core import external_files, wire_format
from ffn_export.errors import UsageError

_LARGEST_WITH_EXTERNAL_DATA = 2**26  # above it, the file's own size is enough


def size_on_disk(path: Path) -> int:
    """Return the size of a file with its external data, or of a directory."""
    if path.is_dir():
        return sum(map(_on_disk, path.rglob("*")))
    own = _on_disk(path)
    return own if own > _LARGEST_WITH_EXTERNAL_DATA else own + sum(map(_on_disk, _external_data(path)))


def _on_disk(path: Path) -> int:
    """Return the disk space of a regular file: a sparse file takes less than its nominal size."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return 0
    return min(status.st_size, status.st_blocks * 512) if stat.S_ISREG(status.st_mode) else 0


def _external_data(path: Path) -> set[Path]:
    if not path.is_file():
        return set()
    try:
        named = external_files.locations(wire_format.external_tensors(path))
    except UsageError:  # the code that loads the file reports what is wrong
        return set()
    return {path.parent / name for name in named}
