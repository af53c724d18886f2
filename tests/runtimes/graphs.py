"""Models of a few nodes, written as text."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import parser

from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.session_options import NO_OPTIMIZER


def write(directory: Path, signature: str, body: str, opset: int = 20, names: str | None = None) -> Artifact:
    """Write a model, such as ``(float[N,4] x) => (float[N,4] y)`` and ``y = Relu(x)``; ``names`` numbers its nodes."""
    header = f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]>'
    path = directory / "model.onnx"
    model = parser.parse_model(f"{header} g {signature} {{{body}}}")
    for index, node in enumerate(model.graph.node):
        node.name = "" if names is None else f"{names}{index}"
    onnx.save(model, path)
    return Artifact(path, settings=NO_OPTIMIZER)
