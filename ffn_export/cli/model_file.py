"""MODEL|BUNDLE of commands that only look, and the file that others write."""

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


def check_output(path: Path) -> None:
    """Refuse, before any work is done for it, a file that cannot be written, and one of a bundle.

    Raises:
        UsageError: If it is one of these.
    """
    from ffn_export.bundle.manifest import read_manifest
    from ffn_export.core import onnx_file

    onnx_file.check_writable(path)
    try:
        of_bundle = path.name in read_manifest(path.parent).files
    except IntegrityError:
        return
    if of_bundle:
        raise UsageError(f"{path} belongs to a bundle, whose manifest says what it holds: write to another directory")
