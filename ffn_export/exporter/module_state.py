"""The state that a module is run in, and put back to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def evaluation_mode(module: torch.nn.Module) -> Iterator[None]:
    """Put a module and all its submodules into evaluation mode, and each back afterwards."""
    training = [m for m in module.modules() if m.training]
    for submodule in training:
        submodule.training = False
    try:
        yield
    finally:
        for submodule in training:
            submodule.training = True
