"""What a command took, in one line."""

from __future__ import annotations

import sys
from pathlib import Path

from ffn_export.core.size_on_disk import size_on_disk


def cost(model: Path, seconds: float) -> str:
    """Return seconds and peak memory of this process, Python and its packages included, beside the size of a model."""
    words = f"{seconds:.0f} s"
    if sys.platform != "win32":  # has no such count
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        words += f", {peak / 2**20:,.0f} MiB of memory at most, Python and its packages included"
    return f"{words}; the model has {size_on_disk(model) / 2**20:,.1f} MiB"
