"""Faults that can be planted at a node; each returns the node that is to be named, or None where it does not apply."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

Plant = Callable[[ir.Model, ir.Node], ir.Node | None]

_OTHER_OPERATOR = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Sub",
    "Div": "Mul",
    "Pow": "Add",
    "Sqrt": "Exp",
    "Reciprocal": "Exp",
    "Sigmoid": "Tanh",
    "Gelu": "Relu",
    "Softmax": "LogSoftmax",
    "ArgMax": "ArgMin",
    "ReduceMean": "ReduceSum",
}
_ORDERED = {"Sub", "Div", "MatMul"}


def wrong_weight(model: ir.Model, node: ir.Node) -> ir.Node | None:
    """Another number in the last initializer that the node reads; the others who read it keep the right one."""
    place, value = next(
        ((i, v) for i, v in reversed(list(enumerate(node.inputs))) if v is not None and _floats(v)), (0, None)
    )
    if value is None or value.const_value is None:
        return None
    array = value.const_value.numpy().copy()
    flat = array.reshape(-1)
    flat[np.argmax(np.abs(flat))] *= 0.5
    wrong = ir.val(f"{value.name}_wrong", const_value=ir.Tensor(array, name=f"{value.name}_wrong"))
    model.graph.register_initializer(wrong)
    node.replace_input_with(place, wrong)
    return node


def transposed_weight(model: ir.Model, node: ir.Node) -> ir.Node | None:
    """A square matrix the other way round."""
    value = node.inputs[-1]
    if node.op_type != "MatMul" or value is None or value.const_value is None:
        return None
    array = value.const_value.numpy()
    if array.shape[0] != array.shape[1]:
        return None
    value.const_value = ir.Tensor(np.ascontiguousarray(array.T), name=value.name)
    return node


def other_attribute(model: ir.Model, node: ir.Node) -> ir.Node | None:
    """An attribute with another value."""
    del model
    if "epsilon" in node.attributes:
        node.attributes["epsilon"] = ir.AttrFloat32("epsilon", 100 * node.attributes.get_float("epsilon", 1e-5))
    elif "approximate" in node.attributes:
        node.attributes["approximate"] = ir.AttrString("approximate", "tanh")
    elif node.op_type == "Transpose":
        perm = list(node.attributes.get_ints("perm", ()))
        perm[1], perm[3] = perm[3], perm[1]
        node.attributes["perm"] = ir.AttrInt64s("perm", perm)
    elif node.op_type in ("Softmax", "ArgMax"):
        node.attributes["axis"] = ir.AttrInt64("axis", 1)
    else:
        return None
    return node


def other_operator(model: ir.Model, node: ir.Node) -> ir.Node | None:
    """Another operator with the same inputs."""
    other = _OTHER_OPERATOR.get(node.op_type)
    if other is None or node.domain:
        return None
    attributes = [a for a in node.attributes.values() if a.name in ("axis", "keepdims", "noop_with_empty_axes")]
    changed = ir.Node("", other, node.inputs, attributes, name=node.name, num_outputs=1)
    _take_place(model, node, changed)
    return changed


def swapped_inputs(model: ir.Model, node: ir.Node) -> ir.Node | None:
    """The two inputs the other way round."""
    del model
    if node.op_type not in _ORDERED or any(value is None or value.is_initializer() for value in node.inputs):
        return None
    first, second = node.inputs
    node.replace_input_with(0, second)
    node.replace_input_with(1, first)
    return node


def inserted(model: ir.Model, node: ir.Node) -> ir.Node | None:
    """A node behind it that changes its output."""
    value = node.outputs[0]
    extra = ir.Node("", "Neg", [value], name=f"extra_{node.name}", num_outputs=1)
    new = extra.outputs[0]
    new.name, new.type, new.shape = f"{value.name}_changed", value.type, value.shape
    model.graph.insert_after(node, extra)
    for user, place in list(value.uses()):
        if user is not extra:
            user.replace_input_with(place, new)
    for place, output in enumerate(model.graph.outputs):
        if output is value:
            value.name, new.name = new.name, value.name
            model.graph.outputs[place] = new
    return extra


def removed(model: ir.Model, node: ir.Node) -> ir.Node | None:
    """Those who read its output read its input instead; the first of them is where it is missing."""
    value = node.outputs[0]
    given = next((v for v in node.inputs if v is not None and not v.is_initializer()), None)
    if given is None or value.is_graph_output() or given.shape != value.shape or given.dtype != value.dtype:
        return None
    order = list(model.graph)
    readers = sorted({user for user, _ in value.uses()}, key=order.index)
    for user, place in list(value.uses()):
        user.replace_input_with(place, given)
    model.graph.remove(node, safe=True)
    return readers[0]


ALL: tuple[Plant, ...] = (
    wrong_weight,
    transposed_weight,
    other_attribute,
    other_operator,
    swapped_inputs,
    inserted,
    removed,
)


def rename(model: ir.Model) -> None:
    """Give every node and computed value a name that says nothing, but for the outputs of the graph."""
    for number, node in enumerate(model.graph):
        node.name = f"n{number}"
        node.metadata_props.clear()
        for value in node.outputs:
            if not value.is_graph_output():
                value.name = f"t{number}"
    for number, value in enumerate(list(model.graph.initializers.values())):
        value.name = f"w{number}"


def _floats(value: ir.Value) -> bool:
    return value.const_value is not None and value.const_value.dtype.is_floating_point()


def _take_place(model: ir.Model, node: ir.Node, other: ir.Node) -> None:
    old, new = node.outputs[0], other.outputs[0]
    new.name, new.shape, new.type = old.name, old.shape, old.type
    ir.convenience.replace_nodes_and_values(model.graph, node, [node], [other], [old], [new])
