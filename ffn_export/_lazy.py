"""Lazy package attributes (PEP 562), so that importing a package does not import torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping


def attach(package: str, origins: Mapping[str, str]) -> Callable[[str], object]:
    """Return a module ``__getattr__`` that imports each name from its module on first use.

    Args:
        package: The package's own ``__name__``.
        origins: Public name -> module, relative to the package (``"feed_forward"``).
    """

    def attribute(name: str) -> object:
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{origins[name]}"), name)

    return attribute
