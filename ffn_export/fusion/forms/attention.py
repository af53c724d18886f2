"""Attention as one node: ``com.microsoft::MultiHeadAttention``.

Its kernel reads the heads where they lie in rows, so the Transposes around both products go, and the scale costs
nothing. Where nothing is added to the scores, it computes them by blocks that stay in cache.

- Keys that several heads share are repeated in rows, since the operator has no attribute for them.
- A causal mask is added like any other, since the operator's is another one if there are more keys than queries.
- A mask that hides nothing for any input is left out, so that scores are computed by blocks.
- A mask that is alike for all queries is widened to each of them, once for all layers: the operator takes no other.
- One of queries, keys and values may have another layout, as the values of GPT-NeoX: a Transpose moves it to rows, and
  two others go. If two had to be moved, no Transpose would be saved, and the form is not written.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir

from ffn_export.fusion.builder import Builder, Names
from ffn_export.fusion.engine import Log
from ffn_export.fusion.forms import ATTENTION as NAME
from ffn_export.fusion.forms.form import Form
from ffn_export.fusion.forms.put import put
from ffn_export.fusion.functions import bodies, portable
from ffn_export.fusion.functions.attention_calls import Found, find
from ffn_export.fusion.functions.attention_writing import AttentionCalls
from ffn_export.fusion.provenance import rules_of
from ffn_export.fusion.shapes import are_same_axes

_DOMAIN, _OPERATOR = "com.microsoft", "MultiHeadAttention"
_LOWEST_OPSET = 15  # Shape with a start, in what is written before it and in its body


def apply(model: ir.Model, log: Log, excluded: Collection[str]) -> dict[str, str]:
    """Write each attention as one node, in place."""
    is_old = model.opset_imports.get("", 0) < _LOWEST_OPSET
    if is_old or (_DOMAIN, _OPERATOR, "") in model.functions:
        return {}  # the latter gives the name another meaning
    names, calls, widened = Names(model), AttentionCalls(model), dict[tuple[object, ...], ir.Value]()
    for graph in tuple(model.graphs()):
        before = log.applied[NAME]
        for found in find(model, graph, has_causal=False):
            if found.end.name in excluded or not _fits(found):
                continue
            op = Builder()
            y = _write(found, graph, op, calls, widened)
            y.type, y.shape = found.end.type, found.end.shape
            put(op, y, found.nodes[-1], found.nodes, found.end, NAME, names)
            model.opset_imports.setdefault(_DOMAIN, 1)
            log.applied.update([NAME])
            log.values.append(str(found.end.name))
        if log.applied[NAME] > before:
            graph.sort()  # a mask that is widened for one attention may be read by one that stands before it
    return {}


def undo(model: ir.Model) -> None:
    """Write the nodes of this form in standard operators, in place."""
    names = Names(model)
    for node in list(model.graph.all_nodes()):
        if NAME in rules_of(node) and (node.domain, node.op_type) == (_DOMAIN, _OPERATOR) and bodies.of(node):
            portable.write_out(model, node, names)


def _fits(found: Found) -> bool:
    """Whether the operator computes this, with fewer nodes that move heads."""
    moved = [each for each in (found.query, found.key, found.value) if not each.is_in_rows]
    gains = found.merging is not None and len(moved) <= 1
    can_mask = not found.steps or _covers(found, -1)
    return gains and can_mask and bool(np.float32(found.scale))  # 0 is for the default


def _covers(found: Found, axis: int) -> bool:
    """Whether a mask has all queries, axis -2, or all keys, axis -1, and not one for all of them."""
    length = (found.query if axis == -2 else found.key).length
    return any(step.mask is not None and are_same_axes([step.sizes[axis]], [length]) for step in found.steps)


def _write(
    found: Found, graph: ir.Graph, op: Builder, calls: AttentionCalls, widened: dict[tuple[object, ...], ir.Value]
) -> ir.Value:
    call = calls.of(found, op)
    query = call.inputs["query"]
    key, value = (_repeated(call.inputs[name], found, op) for name in ("key", "value"))
    bias = call.inputs.get("bias")
    if bias is not None and not _covers(found, -2):
        length = found.query.length if isinstance(found.query.length, int) else found.query.length.value
        known = (graph, bias, query if length is None else length)
        if known not in widened:
            one = op.integers(1)
            sizes = op.Concat(one, one, op.Shape(query, start=1, end=2), one, axis=0)
            widened[known] = op.Expand(bias, sizes)
            widened[known].dtype = ir.DataType.FLOAT
        bias = widened[known]
    mask = () if bias is None else (None, None, bias)
    attributes = {"num_heads": found.query.count, "scale": found.scale}
    y = op.write(f"{_DOMAIN}::{_OPERATOR}", query, key, value, *mask, **attributes)
    return calls.behind(found, y, op)


def _repeated(rows: ir.Value, found: Found, op: Builder) -> ir.Value:
    """Return keys or values in rows, each head repeated for those that share it."""
    shared, size = found.key.count, found.key.size
    times = found.query.count // shared
    if times == 1:
        return rows
    apart, repeats, merged = (
        op.integers(*sizes) for sizes in ([0, 0, shared, 1, size], [1, 1, 1, times, 1], [0, 0, shared * times * size])
    )
    repeated = op.Reshape(op.Expand(op.Reshape(rows, apart), repeats), merged)
    repeated.type = rows.type
    return repeated


ATTENTION = Form(NAME, None, lambda costs: True, apply=apply, undo=undo)
