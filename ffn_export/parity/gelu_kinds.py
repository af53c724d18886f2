"""Whether every GELU of a graph is of a kind that the module computes.

The two kinds are 0.0005 apart at most: in half precision no bound on an output tells them apart. So where the module
calls GELU, a node of the other kind is named, unless the module computes what may be a GELU of that kind in pieces.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion.activations import operator_activation
from ffn_export.parity.watched import GeluKind, Watched

_KINDS: dict[str | None, GeluKind] = {"gelu": "erf", "gelu_tanh": "tanh"}


def differences(model: ir.Model, watched: Watched) -> tuple[str, ...]:
    """Return one line for each GELU of a kind that the module does not compute."""
    if not watched.calls_gelu:
        return ()
    kinds = " and ".join(sorted(watched.gelus))
    return tuple(
        f"node {node.name!r} ({node.op_type}) is a GELU with {kind}, PyTorch computes it with {kinds}"
        for node in model.graph.all_nodes()
        if (kind := _KINDS.get(operator_activation(node))) is not None and kind not in watched.gelus
    )
