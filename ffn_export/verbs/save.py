"""``save``: writes a model to a file."""

from __future__ import annotations

from pathlib import Path

from ffn_export.bundle.manifest import refuse_file_of_bundle
from ffn_export.core import onnx_file
from ffn_export.verbs.open_model import Model, as_ir


def save(model: Model, path: Path | str) -> None:
    """Write a model to an ONNX file, with its weights beside it in ``<name>.data`` if they need more than 2 GiB.

    The same model gives the same bytes. The file is complete or unchanged, whatever happens. It replaces a model, or
    any file whose name ends in ``.onnx``.

    Args:
        model: An ONNX model in memory, an ``.onnx`` file, or a bundle.
        path: The file.

    Raises:
        UsageError: If the path is no regular file, holds something other than a model, or belongs to a bundle, or if
            its directory cannot be written to.

    Examples:
        >>> fused, report = fx.fuse(fx.export("d2l-ffn"))
        >>> fx.save(fused, "fused.onnx")
    """
    path = Path(path)
    onnx_file.check_writable(path)
    refuse_file_of_bundle(path)
    onnx_file.save(as_ir(model), path)
