"""Keep a file from being replaced by an output of another kind, such as source code by a model of a wrong ``-o``."""

from __future__ import annotations

import re
from pathlib import Path

from ffn_export.errors import UsageError

_LOOKED_AT = 256
# ONNX in protobuf begins with the version of its format, a small number, and goes on with another field of a model.
# Its text formats name that version first.
_MODEL = re.compile(rb'\x08[\x01-\x7f][\x12\x1a"(2:B]|[{<\s]*"?ir_?version"?:', re.IGNORECASE)


def check_model(path: Path) -> None:
    """Check that a path is free for a model: no file, or a model, or a file that is named as one.

    Raises:
        UsageError: If a file with other contents is there.
    """
    if path.suffix != ".onnx":
        check(path, _MODEL, "an ONNX model")


def check(path: Path, beginning: re.Pattern[bytes], what: str) -> None:
    """Check that a path is free for an output: no file, or a blank one, or one that begins as such outputs do.

    Raises:
        UsageError: If a file with other contents is there.
    """
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            found = file.read(_LOOKED_AT)
    except OSError:
        return  # what cannot be read is not replaced either, or for a reason that is told when it is written
    if found.strip() and beginning.match(found.lstrip()) is None:
        raise UsageError(f"{path} exists and does not hold {what}, which would replace it: name another file")
