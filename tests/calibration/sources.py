"""Modules that a test takes from the text of a file, which the command line imports."""

from __future__ import annotations

import torch

OUTLIERS = """
import torch
def outliers():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64) for _ in range(4)]
    with torch.no_grad():
        layers[2].weight[:, 3] *= 300  # its column takes all 8 bits of its input's scale
        layers[1].weight[3] *= 300
    return torch.nn.Sequential(*layers)
"""


def module_of(source: str, name: str) -> torch.nn.Module:
    """Run a source and call its factory."""
    names: dict[str, object] = {}
    exec(source, names)
    made = names[name]
    assert callable(made)
    module: torch.nn.Module = made()
    return module
