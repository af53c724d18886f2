"""Name the activation that a single node computes."""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.core.activations import TABLE
from ffn_export.fusion import constants
from ffn_export.fusion.views import float_of, input_at, is_one_of, string_of

_BY_OPERATOR = {operator: each for each in TABLE.values() for operator in each.operators}
_SLOPES = {operator: _BY_OPERATOR[operator].alpha or 0.0 for operator in ("Swish", "com.microsoft::QuickGelu")}


def operator_activation(node: ir.Node) -> str | None:
    """Name the activation that a single node computes; None if it computes none."""
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    if operator in _SLOPES:
        x = input_at(node, 0)
        return swish_name(float_of(node, "alpha", _SLOPES[operator]), None if x is None else x.dtype)
    is_tanh = operator == "Gelu" and string_of(node, "approximate", "none") == "tanh"
    return _name("Gelu:tanh" if is_tanh else operator)


def inner_operator(product: ir.Node) -> str:
    """Return the operator that a ``FusedGemm`` holds; an empty text for any other node."""
    return string_of(product, "activation", "") or "" if is_one_of(product, "FusedGemm") else ""


def inner_activation(product: ir.Node) -> str | None:
    """Name the activation that a ``FusedGemm`` holds."""
    return _name(inner_operator(product))


def _name(operator: str) -> str | None:
    return _BY_OPERATOR[operator].name if operator in _BY_OPERATOR else None


def swish_name(alpha: float, dtype: ir.DataType | None) -> str:
    """Name the swish of a slope, which may have been rounded to the dtype of the graph."""
    for operator, known in _SLOPES.items():
        if abs(alpha - known) <= constants.rounding(known, dtype or ir.DataType.FLOAT):
            return _BY_OPERATOR[operator].name
    return f"swish({alpha:g})"
