"""Tells the values whose rows are NaN or infinite as a whole, if any of their numbers is.

onnxruntime's ``ReduceMax`` may pass over NaN that stands beside numbers, so the divisor of such a row does not show it.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion import sites
from ffn_export.fusion.constants import is_fixed
from ffn_export.fusion.views import inputs_of, int_of, ints_of, is_one_of, rank
from ffn_export.quantization.row_scales import ACTIVATIONS

# Operators that make a row of their result NaN where a row of an input is.
ROW_BY_ROW = (*ACTIVATIONS, "Add", "Sub", "Mul")
_AS_THEY_ARE = ("Cast", "Identity")
_ATTENTION = ("MultiHeadAttention",)


def takes_floats(model: ir.Model) -> bool:
    """Whether a caller can give a model NaN or infinity."""
    return any(value.dtype is None or value.dtype.is_floating_point() for value in model.graph.inputs)


def are_rows_whole(value: ir.Value) -> bool:
    """Whether no row of a value holds NaN beside numbers, whatever a caller gives the model.

    True behind norms and products, whose rows are computed from whole rows, as far as row-by-row nodes and layouts that
    keep the last axis reach.
    """
    waiting, seen = [value], set[ir.Value]()
    while waiting:
        value = waiting.pop()
        node = value.producer()
        if node is None:
            return False
        if value in seen or _makes_whole(node, value):
            continue
        seen.add(value)
        moving = [each for each in inputs_of(node) if not is_fixed(each)]
        if not moving or not (is_one_of(node, *ROW_BY_ROW, *_AS_THEY_ARE, *_ATTENTION) or _keeps_rows(node)):
            return False
        waiting += moving
    return True


def _makes_whole(node: ir.Node, value: ir.Value) -> bool:
    """Whether a node is a norm, or a product of rows and a fixed matrix."""
    if is_one_of(node, *sites.NORMS, *sites.SKIP_NORMS):
        return value is node.outputs[0]
    if not is_one_of(node, *sites.PRODUCTS) or int_of(node, "transA", 0) != 0:
        return False
    # A product with a vector leaves one number of each row, and another axis as the last one.
    return (rank(node.inputs[1]) or 0) > 1 and all(is_fixed(each) for each in node.inputs[1:] if each is not None)


def _keeps_rows(node: ir.Node) -> bool:
    """Whether a node moves rows, and leaves each as it is."""
    if is_one_of(node, "Transpose"):
        order = ints_of(node, "perm")
        return bool(order) and order[-1] == len(order) - 1
    if not is_one_of(node, "Reshape"):
        return False
    shapes = [None if each is None else each.shape for each in (node.inputs[0], node.outputs[0])]
    ends = [shape[-1] for shape in shapes if shape]
    return len(ends) == 2 and isinstance(ends[0], int) and ends[0] == ends[1]
