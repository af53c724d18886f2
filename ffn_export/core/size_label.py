"""Labels for the sizes of symbolic axes, which identify stored results."""

from __future__ import annotations

from collections.abc import Mapping


def size_label(sizes: Mapping[str, int]) -> str:
    """Return a label such as ``batch=1,seq=128``, or ``static`` if no axis is symbolic."""
    return ",".join(f"{name}={size}" for name, size in sizes.items()) or "static"
