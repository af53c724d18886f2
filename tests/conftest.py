"""What tests of several parts share: exported presets, made once for the whole run of a process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import onnx_ir as ir
import pytest

from ffn_export.exporter import onnx_file
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, resolve
from ffn_export.fusion.pipeline import fuse


@cache
def _exported(spec: str, opset: int) -> ir.Model:
    return export_source(resolve(spec), opset)


@cache
def _source(spec: str) -> Source:
    return resolve(spec)


@pytest.fixture(scope="session")
def source() -> Callable[[str], Source]:
    """A preset's source."""
    return _source


@pytest.fixture
def fused_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a preset, exported and fused, and return its path."""

    def write(spec: str, target: str = "ort-cpu", opset: int = 20) -> Path:
        path = tmp_path / f"{spec}-{target}-{opset}.onnx"
        onnx_file.save(fuse(_exported(spec, opset), target)[0], path)
        return path

    return write
