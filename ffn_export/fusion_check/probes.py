"""Choose the values of a fused graph to compare with those of the original model."""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.core.node_graphs import graphs_of
from ffn_export.core.tapped_graphs import computed
from ffn_export.fusion.pipeline import Fusion
from ffn_export.fusion.views import is_read

_UNKNOWN_AXIS = 16
_UNKNOWN_VALUE_BYTES = 2**20


def comparable(model: ir.Model, fusion: Fusion, most_bytes: int) -> tuple[str, ...]:
    """Return the rewritten values that both graphs compute under one name, as far as memory allows.

    Values inside the bodies of ``If`` and ``Loop`` are compared through the outputs of these nodes.
    """
    rewritten = set(fusion.values)
    for node in fusion.model.graph:
        if any(v.name in rewritten for body in graphs_of(node) for inner in body.all_nodes() for v in inner.outputs):
            rewritten.update(str(value.name) for value in node.outputs)
    before = {value.name for value in computed(model.graph)}
    taken, used = [], 0
    for value in computed(fusion.model.graph):
        if value.name not in rewritten or value.name not in before or not is_read(value):
            continue
        used += _estimated_bytes(value)
        if used > most_bytes:
            break
        taken.append(str(value.name))
    return tuple(taken)


def _estimated_bytes(value: ir.Value) -> int:
    if value.shape is None:
        return _UNKNOWN_VALUE_BYTES
    size = 4
    for dim in value.shape:
        size *= dim if isinstance(dim, int) else _UNKNOWN_AXIS
    return size
