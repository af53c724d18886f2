"""Graph inputs and outputs as spec strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def signature(tensor: Mapping[str, Any]) -> str:
    """Return ``x:float32[batch,seq,768]`` for a name, dtype and shape; ``[...]`` if the rank is unknown."""
    dims = "..." if tensor["shape"] is None else ",".join(map(str, tensor["shape"]))
    return f"{tensor['name']}:{tensor['dtype']}[{dims}]"


def opset_words(imports: Mapping[str, int]) -> str:
    """Return ``20, com.microsoft 1``: the default domain first, without its empty name."""
    return ", ".join(f"{domain} {version}".strip() for domain, version in sorted(imports.items()))
