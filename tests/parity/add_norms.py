"""Post-norm AddNorm modules whose residual sum the inputs set directly, so that a case can make it ill-conditioned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from ffn_export.core import onnx_file
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, from_module
from ffn_export.fusion.pipeline import fuse

WIDTH = 1024
INPUTS = dict.fromkeys(("x", "sublayer"), f"float32[batch,{WIDTH}]")


class AddNorm(nn.Module):
    """A norm of a sum."""

    def __init__(self, norm: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.norm = norm()

    def forward(self, x: Tensor, sublayer: Tensor) -> Tensor:
        normed: Tensor = self.norm(x + sublayer)
        return normed


def layer_norm() -> nn.Module:
    return AddNorm(lambda: nn.LayerNorm(WIDTH))


def rms_norm() -> nn.Module:
    return AddNorm(lambda: nn.RMSNorm(WIDTH, eps=1e-6))


def fused(make: Callable[[], nn.Module], target: str, folder: Path) -> tuple[Source, Path]:
    """Return a module as a source and its graph, fused for a target."""
    torch.manual_seed(0)
    source = from_module(make().eval(), INPUTS, "add-norm")
    path = folder / f"{target}.onnx"
    onnx_file.save(fuse(export_source(source, 23), target)[0], path)
    return source, path
