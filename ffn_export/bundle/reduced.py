"""Write a reduced part to a directory: ``model.onnx``, ``reference.onnx``, and ONNX test vectors.

``ffn-export verify DIR/model.onnx --against DIR/reference.onnx`` fails in the same way as the whole model.
"""

from __future__ import annotations

from pathlib import Path

from ffn_export.bundle.manifest import MODEL
from ffn_export.bundle.publish import staging
from ffn_export.core import onnx_file, plain_file, vectors
from ffn_export.errors import UsageError
from ffn_export.parity.bisection.reduce import Reduced

REFERENCE = "reference.onnx"
_OWN = frozenset({MODEL, REFERENCE, f"{MODEL}.data", f"{REFERENCE}.data", vectors.DIRECTORY})


def check_destination(directory: Path) -> None:
    """Check, before any work is done, that a part can be written to a directory.

    Raises:
        UsageError: If the directory holds files other than an earlier part, is no directory, or its parent cannot be
            made.
    """
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise UsageError(f"{directory} is in the way: name another directory for --reduce")
    if directory.is_dir() and {path.name for path in directory.iterdir()} - _OWN:
        raise UsageError(f"{directory} holds other files and is not replaced: name another directory for --reduce")
    try:
        directory.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise plain_file.not_writable(directory.parent, error) from error


def write(reduced: Reduced, directory: Path) -> None:
    """Write a part atomically: the directory is complete, or unchanged.

    Raises:
        UsageError: If the directory cannot be written.
    """
    check_destination(directory)
    with staging(directory.absolute(), check_destination) as stage:
        onnx_file.save(reduced.model, stage.directory / MODEL)
        onnx_file.save(reduced.reference, stage.directory / REFERENCE)
        vectors.write(stage.directory, reduced.inputs, reduced.expected)
        stage.publish()
