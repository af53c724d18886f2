"""What is compared: a PyTorch source, its export as it is, and inputs of so many tokens."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.drawing import draw_all
from ffn_export.core.types import Array
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, from_module
from ffn_export.latency.sizes import token_sizes
from peers.shapes import STRUCTURES, block


@dataclass(frozen=True)
class Subject:
    """A model that is compared.

    Attributes:
        name: Name of the preset or of the whole model.
        widths: ``d_model`` and ``d_ff`` of a block; None for a whole model.
        source: The module, and how it is called.
        path: The export, not fused.
        peer_type: Its optimiser in onnxruntime.transformers.
        heads: Attention heads, which that optimiser asks for.
        tokens: At how many tokens it will be timed.
        weight_bytes: Size of its weights.
    """

    name: str
    widths: tuple[int, int] | None
    source: Source
    path: Path
    peer_type: str
    heads: int
    tokens: tuple[int, ...]
    weight_bytes: int

    def model(self) -> ir.Model:
        """Read the export."""
        return onnx_file.load(self.path)

    def file(self, name: str, make: Callable[[Path], object]) -> Path:
        """Return a competitor's own model, made once: all thread counts share it.

        Args:
            name: Its name.
            make: Writes it to the path that it is given; what fails halfway leaves nothing that a later call takes.
        """
        path = self.path.parent / name / "model.onnx"
        if not path.is_file():
            with tempfile.TemporaryDirectory(dir=self.path.parent) as unfinished:
                make(Path(unfinished) / path.name)
                shutil.copytree(unfinished, path.parent)
        return path

    def sizes(self, tokens: int) -> dict[str, int]:
        """Return the size of each axis for one sequence of so many tokens."""
        return token_sizes(self.source.inputs, tokens)

    def feeds(self, tokens: int) -> dict[str, Array]:
        """Draw one sequence; nothing of it is padding."""
        drawn = draw_all(self.source.inputs, self.sizes(tokens), seed=0)
        masks = {spec.name for spec in self.source.inputs if spec.is_mask}
        return {name: np.ones_like(array) if name in masks else array for name, array in drawn.items()}


def block_subject(preset: str, widths: tuple[int, int], tokens: tuple[int, ...], scratch: Path) -> Subject:
    """Build a block and export it.

    Args:
        preset: A key of ``STRUCTURES``.
        widths: ``d_model`` and ``d_ff``.
        tokens: At how many tokens it will be timed.
        scratch: A directory for its files.
    """
    d_model, d_ff = widths
    source = from_module(block(preset, d_model, d_ff), {"x": f"float32[batch,seq,{d_model}]"}, preset)
    return exported(preset, widths, source, tokens, scratch, (STRUCTURES[preset].peer_type, 8))


def exported(
    name: str,
    widths: tuple[int, int] | None,
    source: Source,
    tokens: tuple[int, ...],
    scratch: Path,
    peer: tuple[str, int],
) -> Subject:
    """Export a source to a file of the directory; ``peer`` is the type and the heads of its peer's optimiser."""
    scratch.mkdir(parents=True, exist_ok=True)
    path = scratch / "exported.onnx"
    model = export_source(source)
    onnx_file.save(model, path)
    return Subject(name, widths, source, path, *peer, tokens, onnx_file.weight_bytes(model))
