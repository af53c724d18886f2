"""The two graphs as they are run: more outputs, and the second one cut at every value that was rewritten.

Where the fused graph is cut, its value is an output under another name, and what follows reads the value
that the model itself computes. So each rewritten value shows its own error alone: nothing is inherited
from sites before it, carried on to those after it, or hidden by them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import onnx_ir as ir

from ffn_export.fusion.pipeline import Fusion
from ffn_export.fusion.views import is_read

SUFFIX = "__after_fusing"
_UNKNOWN_AXIS = 16
_UNKNOWN_VALUE_BYTES = 2**20


def comparable(model: ir.Model, fusion: Fusion, most_bytes: int) -> tuple[str, ...]:
    """Return the rewritten values that both graphs compute under one name, as far as memory allows.

    Values inside the bodies of ``If`` and ``Loop`` are seen by what comes out of these.
    """
    rewritten = set(fusion.values)
    for node in fusion.model.graph:
        if any(v.name in rewritten for body in _bodies(node) for inner in body.all_nodes() for v in inner.outputs):
            rewritten.update(str(value.name) for value in node.outputs)
    before = {value.name for value in _computed(model.graph)}
    taken, used = [], 0
    for value in _computed(fusion.model.graph):
        if value.name not in rewritten or value.name not in before or not is_read(value):
            continue
        used += _estimated_bytes(value)
        if used > most_bytes:
            break
        taken.append(str(value.name))
    return tuple(taken)


def observed(model: ir.Model, names: Collection[str]) -> ir.Model:
    """Return a copy that gives values as outputs, beside its own."""
    copied = model.clone()
    known = {value.name for value in copied.graph.outputs}
    wanted = set(names) - known
    copied.graph.outputs.extend(value for value in _computed(copied.graph) if value.name in wanted)
    return copied


def cut(model: ir.Model, types: dict[str, ir.DataType]) -> tuple[ir.Model, tuple[str, ...]]:
    """Return a copy that is cut at values, and at which.

    Args:
        model: The fused model.
        types: Name of a value -> its dtype in the model that was fused; it may not be there any more.
    """
    names = []
    copied = model.clone()
    outputs = list(copied.graph.outputs)
    copied.graph.outputs.clear()
    for value in [v for v in _computed(copied.graph) if v.name in types]:
        name = str(value.name)
        names.append(name)
        given = ir.val(name, types[name], value.shape)
        ir.convenience.replace_all_uses_with(value, given)
        value.name = f"{name}{SUFFIX}"
        copied.graph.inputs.append(given)
        if value not in outputs:
            outputs.append(value)
    copied.graph.outputs.extend(outputs)
    return copied, tuple(names)


def _bodies(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _computed(graph: ir.Graph) -> Iterable[ir.Value]:
    return (value for node in graph for value in node.outputs if value.name)


def _estimated_bytes(value: ir.Value) -> int:
    if value.shape is None:
        return _UNKNOWN_VALUE_BYTES
    size = 4
    for dim in value.shape:
        size *= dim if isinstance(dim, int) else _UNKNOWN_AXIS
    return size
