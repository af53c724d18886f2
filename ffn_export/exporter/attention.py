"""Correct torch's translation of attention: sizes of 0, and rows that see no key.

1. A size of 0 in the target of a ``Reshape`` copies the input's size, unless ``allowzero`` is set.
2. A row that sees no key is 0 in PyTorch. The translation of a boolean mask adds the lowest finite number to hidden
   scores, and replaces NaN by 0 after the softmax. But a row that has this number everywhere is not NaN: the result is
   the mean of all values. With minus infinity, which PyTorch adds, the row becomes 0.
3. A row that sees NaN is NaN in PyTorch. The translation makes 0 of it, as of any NaN. So weights become 0 where the
   score is minus infinity.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor

# First opset with ``IsInf`` of float16 and bfloat16.
_IS_INF_OF_HALF = 20


def keep_empty_sizes(model: ir.Model) -> None:
    """Set ``allowzero`` on each ``Reshape`` to concatenated sizes, so that an empty sequence keeps size 0.

    A target with a constant 0 or -1 does not change: the 0 may mean to copy a size, and ONNX refuses a 0 beside a -1.
    """
    for node in model.graph.all_nodes():
        if node.op_type == "Reshape" and node.domain == "" and not node.attributes.get_int("allowzero", 0):
            target = node.inputs[1]
            if target is not None and _is_made_of_sizes(target):
                node.attributes["allowzero"] = ir.AttrInt64("allowzero", 1)


def _is_made_of_sizes(target: ir.Value) -> bool:
    concat = target.producer()
    if concat is None or concat.op_type != "Concat":
        return False
    written = [part.const_value.numpy() for part in concat.inputs if part is not None and part.const_value is not None]
    return len(written) < len(concat.inputs) and all(bool(np.all(numbers > 0)) for numbers in written)


def hide_rows(model: ir.Model) -> None:
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
            _replace_hidden_alone(model, node)


def _replace_hidden_alone(model: ir.Model, where: ir.Node) -> None:
    """Replace by 0 the weights of hidden scores and no NaN, if the opset has ``IsInf`` for their dtype."""
    is_nan, softmax = _made_by(where.inputs[0], "IsNaN"), _made_by(where.inputs[2], "Softmax")
    scores = None if softmax is None else softmax.inputs[0]
    if is_nan is None or scores is None or not isinstance(where.graph, ir.Graph):
        return
    in_any_opset = scores.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE)
    if not in_any_opset and model.opset_imports.get("", 0) < _IS_INF_OF_HALF:
        return
    node, before = ir.node("IsInf", [scores], {"detect_positive": 0}, name=is_nan.name), is_nan.outputs[0]
    node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = before.name, before.type, before.shape
    where.graph.insert_before(where, node)
    where.replace_input_with(0, node.outputs[0])
    if not before.uses():
        where.graph.remove(is_nan, safe=True)


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
