"""The sizes of symbolic axes as words: results are found again by them."""

from __future__ import annotations

from collections.abc import Mapping


def size_label(sizes: Mapping[str, int]) -> str:
    """Return sizes such as ``batch=1,seq=128``, or ``static`` where no axis is symbolic."""
    return ",".join(f"{name}={size}" for name, size in sizes.items()) or "static"
