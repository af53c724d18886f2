"""``save``: writes a model to a file."""

from __future__ import annotations

from pathlib import Path

from ffn_export.core import onnx_file
from ffn_export.verbs.open_model import Model, as_ir


def save(model: Model, path: Path | str) -> None:
    """Write a model to an ONNX file, with its weights beside it in ``<name>.data`` if they need more than 2 GiB.

    The same model gives the same bytes. The file is complete or unchanged, whatever happens.

    Args:
        model: An ONNX model in memory, an ``.onnx`` file, or a bundle.
        path: The file.

    Raises:
        UsageError: If the path is no regular file, or its directory cannot be written to.

    Examples:
        >>> fused, report = fx.fuse(fx.export("d2l-ffn"))
        >>> fx.save(fused, "fused.onnx")
    """
    onnx_file.save(as_ir(model), path)
