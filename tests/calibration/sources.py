"""Modules that a test takes from the text of a file, which the command line imports."""

from __future__ import annotations

import torch


def module_of(source: str, name: str) -> torch.nn.Module:
    """Run a source and call its factory."""
    names: dict[str, object] = {}
    exec(source, names)
    made = names[name]
    assert callable(made)
    module: torch.nn.Module = made()
    return module
