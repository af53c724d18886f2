"""Rows of attention that see no key: PyTorch gives 0 there.

torch's translation of attention with a boolean mask adds the lowest number to the scores that are hidden, and turns
NaN in the result of its softmax into 0. But a row in which that number is everywhere is no NaN: it is a mean of all
values. With minus infinity, which PyTorch itself adds, it is one.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.views import is_standard, producer


def keep(model: ir.Model) -> None:
    """Add minus infinity to the hidden scores of each softmax whose NaN is turned into 0."""
    for node in list(model.graph.all_nodes()):
        mask = _mask(node)
        if mask is None:
            continue
        lowest, graph = mask.inputs[2], mask.graph
        if lowest is None or lowest.dtype is None or not isinstance(graph, ir.Graph):
            continue
        number = constants.number(lowest)
        if number is not None and number == float(lowest.dtype.min):
            infinite = ir.tensor(np.array(-np.inf, lowest.dtype.numpy()), name=f"{mask.outputs[0].name}_hidden")
            value = ir.Value(name=infinite.name, const_value=infinite, shape=ir.Shape([]), type=lowest.type)
            graph.register_initializer(value)
            mask.replace_input_with(2, value)


def _mask(node: ir.Node) -> ir.Node | None:
    """Return the ``Where`` whose result is added to the scores of a softmax, if this node turns its NaN into 0."""
    if not is_standard(node, "Where") or constants.number(node.inputs[1]) != 0:
        return None
    softmax = producer(node.inputs[2], "Softmax")
    is_nan = producer(node.inputs[0], "IsNaN")
    if softmax is None or is_nan is None or is_nan.inputs[0] is not softmax.outputs[0]:
        return None
    scores = producer(softmax.inputs[0], "Add")
    found = [] if scores is None else [producer(value, "Where") for value in scores.inputs]
    return next((mask for mask in found if mask is not None and constants.number(mask.inputs[1]) == 0), None)
