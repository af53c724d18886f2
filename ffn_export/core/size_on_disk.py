"""How large a model is on disk: the time and memory that it may take grow with that, not with what it declares."""

from __future__ import annotations

import stat
from pathlib import Path

import onnx

from ffn_export.core.strict import expose_own

_LARGEST_WITH_EXTERNAL_DATA = 2**26  # above it, a file's own size tells enough


def size_on_disk(path: Path) -> int:
    """Return the size of a file with the external data that it names, or of a directory."""
    if path.is_dir():
        return sum(map(_on_disk, path.rglob("*")))
    own = _on_disk(path)
    return own if own > _LARGEST_WITH_EXTERNAL_DATA else own + sum(map(_on_disk, _external_data(path)))


def _on_disk(path: Path) -> int:
    """Return what a regular file takes: one with holes is smaller than it says."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # or a NUL in its name
        return 0
    return min(status.st_size, status.st_blocks * 512) if stat.S_ISREG(status.st_mode) else 0


def _external_data(path: Path) -> set[Path]:
    if not path.is_file():
        return set()
    try:
        graph = onnx.load(path, load_external_data=False).graph
    except Exception as error:  # noqa: BLE001 - who loads the file says what is wrong with it
        expose_own(error)
        return set()
    entries = (entry for tensor in graph.initializer for entry in tensor.external_data if entry.key == "location")
    return {path.parent / entry.value for entry in entries}
