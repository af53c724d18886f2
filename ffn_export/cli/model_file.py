"""MODEL|BUNDLE of commands that only look: the ONNX file, and the manifest where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ffn_export.errors import IntegrityError, UsageError

if TYPE_CHECKING:
    from ffn_export.bundle.manifest import Manifest


def open_argument(path: Path) -> tuple[Path, Manifest | None]:
    """Return the ONNX file that is meant, and the manifest of a bundle.

    Raises:
        UsageError: If a directory is no bundle: nothing was judged, so this is bad input and no failed gate.
    """
    if not path.is_dir():
        return path, None
    from ffn_export.bundle.manifest import MODEL, read_manifest

    try:
        return path / MODEL, read_manifest(path)
    except IntegrityError as error:
        raise UsageError(str(error)) from error
