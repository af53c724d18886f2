"""Read values of which every element is the same number, whatever the inputs of the model are.

A number may be repeated by nodes that move elements, computed from others, and chosen by a ``Where`` whose condition is
one everywhere. So the mask of a model that was traced without padding is read: ``(1 - ones) * lowest`` is 0 everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ffn_export.core.words import words
from ffn_export.fusion import constants
from ffn_export.fusion.views import inputs_of, int_of, is_standard

_MOVES = words("Expand Reshape Transpose Squeeze Unsqueeze Identity Slice Tile Flatten")
_COMPUTES: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Not": np.logical_not,
    "And": np.logical_and,
    "Or": np.logical_or,
}
_DEEPEST = 8
_LARGEST = 1 << 20


def number_everywhere(value: ir.Value | None) -> float | None:
    """Return the number that every element of a value is; None if they differ, or nothing proves that they do not.

    A boolean is 1 or 0.
    """
    element = _element(value, _DEEPEST)
    return None if element is None else float(element)


def _element(value: ir.Value | None, deepest: int) -> Any:
    """Return the only element of a value as a scalar of its dtype, looking back over so many nodes; None if unknown."""
    if value is None:
        return None
    if constants.is_constant(value):
        return _only(value)
    node = value.producer()
    if node is None or not deepest:
        return None
    if is_standard(node, *_MOVES):
        return _element(node.inputs[0], deepest - 1)
    is_read = is_standard(node, "Where", "Cast", *_COMPUTES)
    return _computed(node, [_element(each, deepest - 1) for each in inputs_of(node)]) if is_read else None


def _computed(node: ir.Node, elements: list[Any]) -> Any:
    if node.op_type == "Where" and len(elements) == 3 and elements[0] is not None:
        return elements[1 if elements[0] else 2]
    if not elements or any(each is None for each in elements):
        return None
    with np.errstate(all="ignore"):
        if node.op_type == "Cast":
            return elements[0].astype(ir.DataType(int_of(node, "to", 1) or 1).numpy())
        return _COMPUTES[node.op_type](*elements)


def _only(value: ir.Value) -> Any:
    tensor = constants.tensor_of(value)
    if tensor is None or not 0 < tensor.size <= _LARGEST:
        return None
    array = constants.evaluate(value)
    is_one = array is not None and array.dtype.kind in "biuf" and bool(np.all(array == array.flat[0]))
    return array.flat[0] if is_one and array is not None else None
