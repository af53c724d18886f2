"""``.npz`` files of plain arrays, as ``--samples`` names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ffn_export.errors import UsageError


def read_arrays(path: Path) -> dict[str, Any]:
    """Read the arrays of a ``.npz`` file.

    Raises:
        UsageError: If the file is missing or is no ``.npz`` of plain arrays.
    """
    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:
        raise UsageError(f"{path} is no .npz file of plain arrays") from error
