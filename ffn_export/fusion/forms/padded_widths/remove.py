"""Remove padded widths, so that a graph can be fused, quantised or read as if it had never been padded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ffn_export.fusion import sites
from ffn_export.fusion.builder import Names
from ffn_export.fusion.forms.padded_widths.growing_constants import Plan, read_back, together
from ffn_export.fusion.forms.padded_widths.units import RULE, UNITS, forget, is_intact, paddings_of, plain, plain_shape
from ffn_export.fusion.inference import prove_shapes
from ffn_export.fusion.provenance import note, rules_of
from ffn_export.fusion.shapes import last_size
from ffn_export.fusion.views import is_read, is_standard


def remove(model: ir.Model) -> bool:
    """Remove the padding of all feed-forwards of a model, in place. Return whether it was removed.

    Either all of it is removed or nothing. If the graph was changed since it was padded, such as by another number or
    another reader of a padded value, removing a part would change the result. (A weight below the normal range of
    float32, whose half was rounded, comes back rounded.)
    """
    initializers = (value for graph in model.graphs() for value in graph.initializers.values())
    grown = [value for value in initializers if paddings_of(value)]
    if not grown:
        return False
    pads = [node for node in model.graph.all_nodes() if is_standard(node, "Pad") and RULE in rules_of(node)]
    stated = prove_shapes(model)
    plans = [plan for site in sites.find(model) if (plan := read_back(site)) is not None]
    stated.restore(model)
    if not all(map(is_intact, grown)) or not _explain(plans, grown, pads):
        return False
    names = Names(model)
    for node in pads:
        _take_out(node)
    for plan in plans:
        for value, parts in plan.wide.items():
            if (size := last_size(value)) is not None and value.shape is not None:
                value.shape = ir.Shape([*value.shape[:-1], size - parts * UNITS])
            value.name = names.value(forget(value))
    for value in grown:
        _shrink(value, names)
    for node in model.graph.all_nodes():
        if RULE in rules_of(node):
            note(node, [rule for rule in rules_of(node) if rule != RULE])
    return True


def _explain(plans: Sequence[Plan], grown: Sequence[ir.Value], pads: Sequence[ir.Node]) -> bool:
    """Whether these plans account for all padding in the graph."""
    asked = together(plans)
    for value in grown:
        as_noted = all(asked.get(use) == paddings_of(value) for use in value.uses())
        if value.is_graph_output() or not value.uses() or not as_noted:
            return False
    read = [node.inputs[place] for node, place in asked]
    fed = {(node, 0) for plan in plans for node in plan.inputs}
    feeding = {use for node in pads for use in node.outputs[0].uses()}
    are_ours = not any(node.outputs[0].is_graph_output() for node in pads)
    return all(value in grown for value in read) and fed == feeding and are_ours


def _take_out(pad: ir.Node) -> None:
    x, sizes, graph = pad.inputs[0], pad.inputs[1], pad.graph
    assert x is not None
    assert isinstance(graph, ir.Graph)
    ir.convenience.replace_all_uses_with(pad.outputs[0], x)
    graph.remove(pad, safe=True)
    if sizes is not None and sizes.is_initializer() and not is_read(sizes) and isinstance(sizes.graph, ir.Graph):
        del sizes.graph.initializers[str(sizes.name)]


def _shrink(value: ir.Value, names: Names) -> None:
    tensor, paddings, sizes = value.const_value, paddings_of(value), plain_shape(value)
    assert tensor is not None

    def compute() -> ir.TensorProtocol:
        return ir.tensor(np.ascontiguousarray(plain(tensor.numpy(), paddings)), dtype=tensor.dtype)

    value.shape, value.const_value = sizes, ir.LazyTensor(compute, tensor.dtype, sizes)
    value.name = names.value(forget(value))
