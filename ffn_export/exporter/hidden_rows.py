"""Correct rows of attention that see no key, which are 0 in PyTorch.

torch's translation of attention with a boolean mask adds the lowest finite number to hidden scores, and replaces NaN
by 0 after the softmax. But a row that has this number everywhere is not NaN: the result is the mean of all values. With
minus infinity, which PyTorch adds, the row is NaN and becomes 0.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor


def keep(model: ir.Model) -> None:
    """Add minus infinity to the hidden scores of each softmax whose NaN is replaced by 0."""
    for node in list(model.graph.all_nodes()):
        mask = _mask(node)
        lowest = None if mask is None else mask.inputs[2]
        if mask is None or lowest is None or lowest.dtype is None or not isinstance(mask.graph, ir.Graph):
            continue
        if _number(lowest) == float(lowest.dtype.min):
            infinite = ir.tensor(np.array(-np.inf, lowest.dtype.numpy()), name=f"{mask.outputs[0].name}_hidden")
            value = ir.Value(name=infinite.name, const_value=infinite, shape=ir.Shape([]), type=lowest.type)
            mask.graph.register_initializer(value)
            mask.replace_input_with(2, value)


def _mask(node: ir.Node) -> ir.Node | None:
    """Return the ``Where`` that is added to the scores of a softmax, if ``node`` replaces its NaN by 0, or None."""
    if node.op_type != "Where" or _number(node.inputs[1]) != 0:
        return None
    softmax, is_nan = _made_by(node.inputs[2], "Softmax"), _made_by(node.inputs[0], "IsNaN")
    if softmax is None or is_nan is None or is_nan.inputs[0] is not softmax.outputs[0]:
        return None
    scores = _made_by(softmax.inputs[0], "Add")
    found = [] if scores is None else [_made_by(value, "Where") for value in scores.inputs]
    return next((mask for mask in found if mask is not None and _number(mask.inputs[1]) == 0), None)


def _made_by(value: ir.Value | None, operator: str) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if node is not None and (node.domain, node.op_type) == ("", operator) else None


def _number(value: ir.Value | None) -> float | None:
    tensor = None if value is None else constant_tensor(value)
    return float(tensor.numpy().reshape(())) if tensor is not None and tensor.size == 1 else None
