"""Rewrite single nodes for a later opset, where an operator keeps its meaning and changes its interface.

Covers the operators of transformers. Each adapter tells which nodes it can rewrite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.fusion.builder import Names
from ffn_export.fusion.shapes import is_along_last
from ffn_export.fusion.views import input_at


@dataclass(frozen=True)
class Adapter:
    """How to raise a node past the version of its operator that an opset introduced.

    Attributes:
        since: The opset.
        adapt: Function that rewrites the node in place.
        can: Function that tells whether the node has the same meaning afterwards.
    """

    since: int
    adapt: Callable[[ir.Node, Names], None]
    can: Callable[[ir.Node], bool] = lambda node: True


def _attribute_to_input(name: str) -> Callable[[ir.Node, Names], None]:
    """Return an adapter that moves an attribute of integers to the second input."""

    def adapt(node: ir.Node, names: Names) -> None:
        attribute = node.attributes.pop(name, None)
        if attribute is None or len(node.inputs) > 1 or node.graph is None:
            return
        array = np.asarray(attribute.as_ints(), np.int64)
        value = node.outputs[0]
        # A node and no initializer, because a function body has none.
        node_name = names.node(f"{node.name or node.op_type}_{name}")
        constant = ir.node("Constant", [], {"value": ir.tensor(array)}, name=node_name)
        constant.outputs[0].name = names.value(f"{value.name}_{name}")
        constant.outputs[0].dtype = ir.DataType.INT64
        constant.outputs[0].shape = ir.Shape(array.shape)
        node.graph.insert_before(node, [constant])
        node.resize_inputs(2)
        node.replace_input_with(1, constant.outputs[0])

    return adapt


def _count_outputs(node: ir.Node, names: Names) -> None:
    """Set the number of equal parts of a Split that states no sizes."""
    del names
    if len(node.inputs) < 2 or node.inputs[1] is None:
        node.attributes["num_outputs"] = ir.AttrInt64("num_outputs", len(node.outputs))


def _say_last_axis(node: ir.Node, names: Names) -> None:
    del names
    node.attributes["axis"] = ir.AttrInt64("axis", -1)


def _is_over_the_last_axis(node: ir.Node) -> bool:
    """Whether a Softmax, which flattened all axes from its axis on, is over the last axis alone."""
    return is_along_last(node, input_at(node, 0), 1)


def _is_of_floats(node: ir.Node) -> bool:
    """Whether an Erf has a floating-point dtype; integers were removed, and nothing else changed."""
    x = input_at(node, 0)
    return x is not None and x.dtype is not None and x.dtype.is_floating_point()


def _has_one_output(node: ir.Node) -> bool:
    """Whether a BatchNormalization is for inference; before an attribute, its number of outputs told that."""
    return not any(value.name or value.uses() for value in node.outputs[1:])


def _is_stated(name: str) -> Callable[[ir.Node], bool]:
    """Return a function that tells whether an attribute is a value, and no reference to a function's attribute."""

    def can(node: ir.Node) -> bool:
        attribute = node.attributes.get(name)
        return attribute is None or not attribute.is_ref()

    return can


_AXES_18 = (Adapter(18, _attribute_to_input("axes"), _is_stated("axes")),)
_AXES_13 = (Adapter(13, _attribute_to_input("axes"), _is_stated("axes")),)
_SOFTMAX = (Adapter(13, _say_last_axis, _is_over_the_last_axis),)

ADAPTERS: Mapping[str, tuple[Adapter, ...]] = {
    **dict.fromkeys(
        (f"Reduce{name}" for name in ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare"]),
        _AXES_18,
    ),
    **dict.fromkeys(("ReduceSum", "Squeeze", "Unsqueeze"), _AXES_13),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _SOFTMAX),
    "Erf": (Adapter(13, lambda node, names: None, _is_of_floats),),
    "BatchNormalization": (Adapter(14, lambda node, names: None, _has_one_output),),
    "Split": (Adapter(13, _attribute_to_input("split"), _is_stated("split")), Adapter(18, _count_outputs)),
}
