"""``export``: converts a PyTorch module to an ONNX model with dynamic axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import onnx_ir as ir

from ffn_export.core.source_options import SourceOptions
from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.examples import Inputs
from ffn_export.exporter.export import export_source
from ffn_export.verbs.source_spec import Subject, named_source


def export(
    module: Subject,
    inputs: Inputs | None = None,
    *,
    samples: Mapping[str, Any] | None = None,
    opset: int = DEFAULT_OPSET,
    name: str | None = None,
    **source: Unpack[SourceOptions],
) -> ir.Model:
    """Export a module or a SPEC to a checked ONNX model with dynamic axes.

    Args:
        module: A ``torch.nn.Module``, or a SPEC: a preset's name, ``package.module:factory``, ``hf:DIR``, a ``.pt2``.
        inputs: Input name -> ``"float32[batch,seq,768]"``, or for a module example tensors: one, a tuple in the order
            of ``forward``, or a mapping by name. Names and axes are then found by tracing, and are those of the model's
            inputs. Required for a module and a factory; other SPECs declare their inputs.
        samples: Input name -> array to trace with, if drawn inputs are not suitable.
        opset: Version of the default operator set, 18 or higher.
        name: Name of the graph.
        source: How the module is loaded and in which precision it is exported
            (:class:`~ffn_export.core.source_options.SourceOptions`).

    Raises:
        UsageError: If the SPEC or the inputs do not parse or do not fit.
        ExportError: If the module cannot be exported as requested.

    Examples:
        >>> model = fx.export("d2l-ffn")
        >>> [node.op_type for node in model.graph]
        ['MatMul', 'Add', 'Relu', 'MatMul', 'Add']
        >>> import torch
        >>> model = fx.export(torch.nn.LayerNorm(8), torch.ones(2, 7, 8))
        >>> [str(value.shape) for value in model.graph.inputs]
        ['[batch,seq,8]']
    """
    return export_source(named_source(export, module, inputs, source).source(samples, name=name), opset)
