"""Types shared by all packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
"""An array of any shape and dtype."""

Progress = Callable[[str], None]
"""Called with one line for each step of long work."""


def silent(line: str) -> None:
    """Report no progress."""
