"""``.npz`` files of plain arrays, as ``--samples`` names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ffn_export.core.plain_file import open_file
from ffn_export.errors import UsageError


def read_arrays(path: Path) -> dict[str, Any]:
    """Read the arrays of a ``.npz`` file.

    Raises:
        UsageError: If the file is missing, cannot be read, or is no ``.npz`` of plain arrays.
    """
    with open_file(path) as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except Exception as error:
            raise UsageError(f"{path} is no .npz file of plain arrays") from error
