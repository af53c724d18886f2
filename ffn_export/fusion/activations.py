"""Name the activation of a feed-forward by its nodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx_ir as ir

from ffn_export.core.activations import OPERATORS, TABLE
from ffn_export.core.formula import parse
from ffn_export.fusion import constants
from ffn_export.fusion.formulas import begins, computes
from ffn_export.fusion.operator_names import inner_activation, operator_activation, swish_name

_FORMULAS = {name: parse(each.formula) for name, each in TABLE.items() if each.formula}
# Activation of ``FusedGemm`` -> the default of its alpha, which the kernel calls activation_alpha.
FUSED_GEMM = {each.operators[0]: each.alpha for each in TABLE.values() if each.in_fused_gemm}


def activation_name(
    activated: Sequence[ir.Node], nodes: Sequence[ir.Node], biases: Collection[ir.Node] = ()
) -> str | None:
    """Name the activation of a feed-forward.

    Args:
        activated: First products that hold the activation (``FusedGemm``).
        nodes: Further nodes of the activation.
        biases: Sums with a bias before them. One of a number may belong to the activation: ``x * Relu(x + 3)``.

    Returns:
        The name in the reference modules, or None if it is another function.
    """
    written = next((name for name, formula in _FORMULAS.items() if computes(formula, activated, nodes, biases)), None)
    if written is None and len(activated) + len(nodes) == 1:
        return operator_activation(nodes[0]) if nodes else inner_activation(activated[0])
    return written or _decomposed_swish(nodes)


def has_formula(name: str | None) -> bool:
    """Whether an activation is written in several operators, because no single one computes it."""
    return name in _FORMULAS


def begins_activation(node: ir.Node) -> bool:
    """Whether a node is an activation, or begins the nodes of one that no single operator computes."""
    return (node.domain, node.op_type) in OPERATORS or any(begins(formula, node) for formula in _FORMULAS.values())


def _decomposed_swish(nodes: Sequence[ir.Node]) -> str | None:
    """Name a swish that is decomposed into products and a sigmoid."""
    operators = sorted(node.op_type for node in nodes)
    sigmoid = next((node for node in nodes if node.op_type == "Sigmoid"), None)
    last = nodes[-1] if nodes else None
    if sigmoid is None or last is None or last.op_type != "Mul" or sigmoid.outputs[0] not in last.inputs:
        return None
    gated = next((value for value in last.inputs if value is not sigmoid.outputs[0]), None)
    argument = sigmoid.inputs[0]
    if operators == ["Mul", "Sigmoid"]:
        return "silu" if gated is argument else None
    scale = None if argument is None else argument.producer()
    if operators == ["Mul", "Mul", "Sigmoid"] and scale in nodes and scale is not None and gated in scale.inputs:
        numbers = [constants.number(value) for node in nodes for value in node.inputs]
        alpha = next((number for number in numbers if number is not None), None)
        return None if alpha is None else swish_name(alpha, nodes[-1].outputs[0].dtype)
    return None
