"""Faults that are planted into ONNX files, each as a function of a model in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

Fault = Callable[[ir.Model], None]


def node_of(model: ir.Model, *operators: str) -> ir.Node:
    """Return the first node of one of these operators."""
    return next(node for node in model.graph if node.op_type in operators)


def other_gelu(model: ir.Model) -> None:
    """Swap tanh-GELU for erf-GELU, or the other way."""
    node = node_of(model, "Gelu")
    kind = node.attributes.get_string("approximate", "none")
    node.attributes["approximate"] = ir.AttrString("approximate", "none" if kind == "tanh" else "tanh")


def epsilon(value: float) -> Fault:
    """Change the epsilon of the first norm."""

    def plant(model: ir.Model) -> None:
        node = node_of(model, "LayerNormalization", "RMSNormalization")
        assert node.attributes.get_float("epsilon", 1e-5) != value
        node.attributes["epsilon"] = ir.AttrFloat32("epsilon", value)

    return plant


def scaled_weight(factor: float, index: int = 0) -> Fault:
    """Scale one element of the largest initialiser; ``index`` counts from its largest magnitude down."""

    def plant(model: ir.Model) -> None:
        value = max(model.graph.initializers.values(), key=lambda v: v.const_value.size if v.const_value else 0)
        assert value.const_value is not None
        array = value.const_value.numpy().copy()
        flat = array.reshape(-1)
        where = np.argsort(-np.abs(flat))[index]
        flat[where] *= factor
        value.const_value = ir.Tensor(array, name=value.name)

    return plant


def doubled_bias(model: ir.Model) -> None:
    """Add the first bias twice."""
    node = node_of(model, "Add")
    bias = next(v for v in node.inputs if v is not None and v.is_initializer())
    assert bias.const_value is not None
    bias.const_value = ir.Tensor(bias.const_value.numpy() * 2, name=bias.name)


def nan_weight(model: ir.Model) -> None:
    """Put a NaN into the largest initialiser."""
    scaled_weight(float("nan"))(model)


def static_batch(model: ir.Model) -> None:
    """Fix the first axis of the input."""
    value = model.graph.inputs[0]
    assert value.shape is not None
    value.shape = ir.Shape([4, *list(value.shape)[1:]])


def negated_activation(model: ir.Model) -> None:
    """Compute the activation of the negated input."""
    node = node_of(model, "Relu", "Gelu", "QuickGelu", "Swish")
    negate = ir.node("Neg", [node.inputs[0]])
    negate.outputs[0].shape, negate.outputs[0].type = node.outputs[0].shape, node.outputs[0].type
    model.graph.insert_before(node, negate)
    node.replace_input_with(0, negate.outputs[0])


def renamed_output(model: ir.Model) -> None:
    """Give the output another name."""
    model.graph.outputs[0].name = "something_else"
