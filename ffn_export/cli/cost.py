"""What a command took, in one line."""

from __future__ import annotations

import sys
from pathlib import Path

from ffn_export.core.size_on_disk import size_on_disk


def peak_memory() -> int | None:
    """Return the largest memory of this process so far in bytes, mapped files included; None on Windows."""
    if sys.platform == "win32":  # has no such count
        return None
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def cost(model: Path, seconds: float, before: int | None) -> str:
    """Return seconds and peak memory beside the size of a model.

    Args:
        model: The model.
        seconds: Seconds that the command took.
        before: Peak memory of Python and its packages, before the command read the model.
    """
    words = f"{seconds:.0f} s"
    peak = peak_memory()
    if peak is not None and before is not None:
        words += f", {(peak - before) / 2**20:,.0f} MiB of memory at most beside {before / 2**20:,.0f} of Python"
        words += " and its packages"
    return f"{words}; the model has {size_on_disk(model) / 2**20:,.1f} MiB"
