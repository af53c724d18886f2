"""Load a package's public names when they are first used (PEP 562), so that importing the package is light."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ffn_export.errors import needing

Attached = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def attach_stub(package: str, file: str) -> Attached:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose stub lists its public names.

    The stub beside ``file`` has a line ``from .module import name as name`` for each name, which type checkers read
    too. A name whose module needs a package that is not installed raises ``MissingPackageError``. One whose
    module fails with an ``AttributeError`` raises ``ImportError`` with that as its cause.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        alias.name: f"{package}.{line.module}"
        for line in stub.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needing(f"{package}.{name}"):
            try:
                return getattr(importlib.import_module(homes[name]), name)
            except AttributeError as error:  # which Python would take for a name that the package lacks
                raise ImportError(f"{package}.{name} cannot be loaded: {error}") from error

    return load, lambda: sorted(homes), sorted(homes)
