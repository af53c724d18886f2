"""ONNX Runtime's own session options for a model, as far as it survives them."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from ffn_export.runtimes.session_options import DISABLE_OPTIMIZERS, ORT_DEFAULT, SessionSettings

_LEFT_OUT = {DISABLE_OPTIMIZERS: "NchwcTransformer"}


def default_session(model: ir.Model) -> SessionSettings:
    """Return ``ORT_DEFAULT``, without ``NchwcTransformer`` for a model that computes in float16.

    On the CPU, onnxruntime 1.31 ends the process where that optimiser follows ``MatmulTransposeFusion`` in float16:
    behind a Transpose of the first two axes before a MatMul, as ``nn.TransformerEncoderLayer`` may have it.
    It packs convolutions, and feed-forwards and norms have none.

    Examples:
        >>> default_session(ir.Model(ir.Graph([], [], nodes=[]), ir_version=10)) is ORT_DEFAULT
        True
    """
    values = (value for node in model.graph.all_nodes() for value in (*node.inputs, *node.outputs))
    if any(value is not None and value.dtype == ir.DataType.FLOAT16 for value in values):
        return replace(ORT_DEFAULT, config_entries=_LEFT_OUT)
    return ORT_DEFAULT
