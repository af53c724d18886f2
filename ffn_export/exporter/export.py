"""Export a source to an ONNX model in one call: capture, clean, check."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import onnx_ir as ir
import torch

from ffn_export import __version__
from ffn_export.core.garbage import collected_seldom
from ffn_export.core.onnx_file import strip_machine_metadata
from ffn_export.errors import ExportError
from ffn_export.exporter import computed_weights, shared_weights, weight_layout
from ffn_export.exporter.capture import DEFAULT_OPSET, capture
from ffn_export.exporter.checks import TracedSizeError, check_export
from ffn_export.exporter.source import Source

# A chunk of an axis that has size 1 at the small sizes of the first trace is longer at this size.
_LARGER = 41
PRODUCER = "ffn-export"


@collected_seldom()
def export_source(source: Source, opset: int = DEFAULT_OPSET) -> ir.Model:
    """Export a source to a checked ONNX model.

    Args:
        source: The source, from :func:`ffn_export.exporter.source.resolve` or ``from_module``.
        opset: Version of the default operator set, 18 or higher.

    Raises:
        ExportError: If the module cannot be exported as requested; the message says what to do.
    """
    try:
        return _exported(source, opset)
    except TracedSizeError as error:
        if source.samples is None and source.program is None:
            with suppress(ExportError):
                return _exported(replace(source, least_traced=_LARGER), opset)
        raise ExportError(str(error)) from error


def _say_what_made_it(model: ir.Model, source: Source) -> None:
    """Write what viewers of models show; the same source and versions give the same text."""
    inputs = " ".join(f"{spec.name}:{spec}" for spec in source.inputs)
    model.producer_name, model.producer_version = PRODUCER, __version__
    model.doc_string = f"{source.name}, exported from PyTorch {torch.__version__}. Inputs: {inputs}"


def _exported(source: Source, opset: int) -> ir.Model:
    program, model = capture(source, opset)
    weight_layout.fold(model)
    computed_weights.fold(model)
    shared_weights.merge(model)
    strip_machine_metadata(model)
    model.graph.name = source.name
    _say_what_made_it(model, source)
    check_export(model, source.inputs, program, opset)
    return model
