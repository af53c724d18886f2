"""Names of activations, read off their operators."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.rule import Operator, standard
from ffn_export.fusion.views import float_of, input_at, string_of

_NAMES = {
    "Relu": "relu",
    "Tanh": "tanh",
    "Elu": "elu",
    "Mish": "mish",
    "HardSwish": "hardswish",
    "LeakyRelu": "leaky_relu",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Selu": "selu",
    "Celu": "celu",
    "HardSigmoid": "hardsigmoid",
    "ThresholdedRelu": "thresholded_relu",
    "Clip": "clip",
    "BiasGelu": "gelu",
    "FastGelu": "gelu_tanh",
}

# Operators that are activations by themselves.
ACTIVATIONS: frozenset[Operator] = (
    standard(*(name for name in _NAMES if name not in ("BiasGelu", "FastGelu")), "Gelu", "Swish")
    | {("com.microsoft", name) for name in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")}
)  # fmt: skip

# Operators that compute each number of their result from the numbers in its place.
ELEMENTWISE: frozenset[Operator] = ACTIVATIONS | standard(
    "Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Reciprocal", "Neg", "Abs", "Exp", "Log", "Erf", "Min", "Max", "Sign",
    "Where", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Not", "And", "Or", "PRelu", "Sum",
    "Sin", "Cos", "Floor", "Ceil", "Round",
)  # fmt: skip


def activation_name(activated: Sequence[ir.Node], pieces: Sequence[ir.Node]) -> str | None:
    """Name the activation of a feed-forward.

    Args:
        activated: Its first products, where they hold the activation (``FusedGemm``).
        pieces: The nodes of the activation besides.

    Returns:
        The name in the reference modules, or None where it is another function.
    """
    names = [_NAMES.get(string_of(node, "activation", "") or "") for node in activated]
    names += [_name(node) for node in pieces]
    if len(names) == 1:
        return names[0]
    if len(names) == 2 and names[0] == "relu" and _squares(pieces[-1]):
        return "relu2"
    return _swish_in_pieces(pieces)


def _name(node: ir.Node) -> str | None:
    if node.op_type == "Gelu":
        kind = string_of(node, "approximate", "none")
        return "gelu_tanh" if kind == "tanh" and node.domain == "" else "gelu"
    if node.op_type in ("Swish", "QuickGelu"):
        alpha = float_of(node, "alpha", 1.0 if node.op_type == "Swish" else 1.702)
        x = input_at(node, 0)
        return _swish(alpha, None if x is None else x.dtype)
    return _NAMES.get(node.op_type)


def _squares(node: ir.Node) -> bool:
    if node.op_type == "Pow":
        return constants.number(input_at(node, 1)) == 2
    return node.op_type == "Mul" and input_at(node, 0) is input_at(node, 1)


def _swish_in_pieces(pieces: Sequence[ir.Node]) -> str | None:
    """Name a swish that stands there as products and a sigmoid."""
    operators = sorted(node.op_type for node in pieces)
    sigmoid = next((node for node in pieces if node.op_type == "Sigmoid"), None)
    last = pieces[-1] if pieces else None
    if sigmoid is None or last is None or last.op_type != "Mul" or sigmoid.outputs[0] not in last.inputs:
        return None
    gated = next((value for value in last.inputs if value is not sigmoid.outputs[0]), None)
    argument = sigmoid.inputs[0]
    if operators == ["Mul", "Sigmoid"]:
        return "silu" if gated is argument else None
    scale = None if argument is None else argument.producer()
    if operators == ["Mul", "Mul", "Sigmoid"] and scale in pieces and scale is not None and gated in scale.inputs:
        numbers = [constants.number(value) for node in pieces for value in node.inputs]
        alpha = next((number for number in numbers if number is not None), None)
        return None if alpha is None else _swish(alpha, pieces[-1].outputs[0].dtype)
    return None


def _swish(alpha: float, dtype: ir.DataType | None) -> str:
    """Name the slope; it may have been rounded to the dtype of the graph."""
    for name, known in (("silu", 1.0), ("quick_gelu", 1.702)):
        if abs(alpha - known) <= constants.rounding(known, dtype or ir.DataType.FLOAT):
            return name
    return f"swish({alpha:g})"
