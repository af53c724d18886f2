"""Activations of another kind, on the wrong values, or nowhere."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from tests.parity.faults.edit import Editor, behind, node_of, nodes_of, replaced
from tests.parity.faults.fault import Fault, bound

Activation = Callable[[Editor, ir.Value], ir.Value]


def other_gelu(model: ir.Model) -> None:
    """Swap tanh-GELU for erf-GELU, or the other way."""
    node = node_of(model, "Gelu")
    kind = node.attributes.get_string("approximate", "none")
    node.attributes["approximate"] = ir.AttrString("approximate", "none" if kind == "tanh" else "tanh")


def written(activation: Activation, index: int = 0) -> Callable[[ir.Model], None]:
    """Compute another activation where one is."""

    def plant(model: ir.Model) -> None:
        node = nodes_of(model, "Gelu", "Relu", "QuickGelu")[index]
        replaced(model, node, lambda edit, inputs: activation(edit, inputs[0]))

    return plant


def after(activation: Activation) -> Callable[[ir.Model], None]:
    """Compute something on top of the activation."""
    return lambda model: behind(model, node_of(model, "Gelu", "Relu", "QuickGelu").outputs[0], activation)


def before(activation: Activation) -> Callable[[ir.Model], None]:
    """Compute something on what the activation reads."""

    def plant(model: ir.Model) -> None:
        node = node_of(model, "Gelu", "Relu", "QuickGelu", "Swish")
        read = node.inputs[0]
        assert read is not None
        behind(model, read, activation)

    return plant


def negated_activation(model: ir.Model) -> None:
    """Compute the activation of the negated input."""
    before(lambda edit, x: edit.Neg(x))(model)


def _gated(factor: float) -> Activation:
    """``x * sigmoid(factor * x)``."""
    return lambda edit, x: edit.Mul(x, edit.Sigmoid(edit.Mul(x, edit.number(factor))))


def _tanh_gelu(root: float, cubic: float) -> Activation:
    def write(edit: Editor, x: ir.Value) -> ir.Value:
        cube = edit.Mul(edit.Mul(x, x), edit.Mul(x, edit.number(cubic)))
        gate = edit.Tanh(edit.Mul(edit.Add(x, cube), edit.number(root)))
        return edit.Mul(edit.Mul(x, edit.number(0.5)), edit.Add(gate, edit.number(1)))

    return write


def _clipped(low: float, high: float) -> Activation:
    return lambda edit, x: edit.Clip(x, edit.number(low), edit.number(high))


def _bias_after(model: ir.Model) -> None:
    add, relu = node_of(model, "Add"), node_of(model, "Relu")
    product, bias = add.inputs
    relu.replace_input_with(0, product)
    behind(model, relu.outputs[0], lambda edit, y: edit.Add(y, bias))


FAULTS = (
    Fault(
        "gelu-tanh-for-erf",
        "tanh GELU for erf GELU",
        ("post_norm", "decoder", "bert-ffn", "nlp-transformers-ffn"),
        (bound("normal"),),
        other_gelu,
    ),
    Fault(
        "gelu-erf-for-tanh",
        "erf GELU for tanh GELU",
        ("pre_norm", "offset_geglu", "gpt2-ffn", "gemma-ffn"),
        (bound("normal"),),
        other_gelu,
    ),
    Fault("gelu-quick", "quick GELU for erf GELU", ("post_norm",), (bound("normal"),), written(_gated(1.702))),
    Fault(
        "gelu-by-sigmoid",
        "tanh GELU without its cubic term, as a sigmoid",
        ("pre_norm",),
        (bound("normal"),),
        written(_gated(2 * math.sqrt(2 / math.pi))),
    ),
    Fault(
        "gelu-rounded-root",
        "0.79 for the root of 2 / pi in a tanh GELU",
        ("pre_norm",),
        (bound("normal"),),
        written(_tanh_gelu(0.79, 0.044715)),
    ),
    Fault(
        "gelu-rounded-cubic",
        "0.0447 for 0.044715 in a tanh GELU",
        ("pre_norm",),
        (bound("normal"),),
        written(_tanh_gelu(math.sqrt(2 / math.pi), 0.0447)),
    ),
    Fault("silu-for-gelu", "SiLU for GELU in one layer", ("encoder",), (bound("normal"),), written(_gated(1), 1)),
    Fault(
        "hard-swish", "hard swish for SiLU", ("swiglu",), (bound("normal"),), written(lambda edit, x: edit.HardSwish(x))
    ),
    Fault("relu6", "ReLU clipped at 6", ("relu",), (bound("large"),), after(_clipped(0, 6))),
    Fault("clipped-at-20", "activations clipped at 20", ("relu",), (bound("large"),), after(_clipped(-20, 20))),
    Fault(
        "leaky",
        "a slope of 0.001 below zero for ReLU",
        ("relu",),
        (bound("normal"),),
        written(lambda edit, x: edit.LeakyRelu(x, alpha=1e-3)),
    ),
    Fault(
        "activation-missing",
        "no activation in one layer",
        ("decoder",),
        (bound("normal"),),
        written(lambda edit, x: edit.Identity(x), 1),
    ),
    Fault(
        "activation-negated",
        "the activation of the negated input",
        ("relu", "llama-ffn"),
        (bound("normal"),),
        negated_activation,
    ),
    Fault("activation-before-bias", "the bias added after the activation", ("relu",), (bound("normal"),), _bias_after),
)
