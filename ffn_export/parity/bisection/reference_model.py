"""The unfused graph of a reference: the export of a source, or the other model unchanged."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.errors import ExportError, UsageError
from ffn_export.exporter.capture import DEFAULT_OPSET, LOWEST_OPSET
from ffn_export.exporter.export import export_source
from ffn_export.parity.reference.references import Reference


def reference_model(reference: Reference, suspect: ir.Model) -> ir.Model:
    """Return the reference as a graph, whose inner values the suspect is compared with.

    A source is exported again, to the opset of the suspect if possible, so that operators and exporter-given names
    agree as far as possible.

    Raises:
        UsageError: If the reference has only outputs, such as test vectors.
        ExportError: If the source cannot be exported.
    """
    if reference.source is None:
        path = Path(reference.name)
        if path.suffix != ".onnx":
            raise UsageError(f"{reference.name} tell outputs alone: name what to bisect against with --against")
        return onnx_file.load(path)
    opset = suspect.opset_imports.get("", DEFAULT_OPSET)
    try:
        return export_source(reference.source, min(max(opset, LOWEST_OPSET), onnx.defs.onnx_opset_version()))
    except ExportError:
        if opset == DEFAULT_OPSET:
            raise
        return export_source(reference.source, DEFAULT_OPSET)
