"""Recognise an activation that no single operator computes by the chain of its operators."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ffn_export.core.activations import SQUARE, TIMES_X, number_of
from ffn_export.fusion import constants
from ffn_export.fusion.region import LAYOUT, through
from ffn_export.fusion.views import input_at, is_one_of, is_standard, orders, string_of


def squares(node: ir.Node) -> bool:
    """Whether a node is a power of two, or a product of a value with itself."""
    if node.op_type == "Pow":
        return constants.number(input_at(node, 1)) == 2
    return node.op_type == "Mul" and input_at(node, 0) is input_at(node, 1)


def unscaled(value: ir.Value) -> tuple[ir.Value, float]:
    """Return the factor of a product that is not a number, and the number; the value itself and 1 if it is none."""
    node = value.producer()
    for factor, other in orders(node) if is_standard(node, "Mul") else ():
        number = constants.number(other)
        if number is not None and constants.number(factor) is None:
            return factor, number
    return value, 1.0


def activation_inside(product: ir.Node) -> str:
    """Return the activation that a ``FusedGemm`` holds."""
    return string_of(product, "activation", "") or ""


def is_chain(chain: Sequence[str], activated: Sequence[ir.Node], nodes: Sequence[ir.Node]) -> bool:
    """Whether the activations of first products, and then the nodes, are the operators of a chain, in its order."""
    count = len(activated)
    if len(chain) != count + len(nodes) or list(chain[:count]) != [activation_inside(node) for node in activated]:
        return False
    x = None if activated else _data(nodes[0])
    before = (*activated[-1:], *nodes) if activated else (None, *nodes)
    return all(_is_link(*each, x) for each in zip(chain[count:], nodes, before, strict=False))


def begins(chain: Sequence[str], node: ir.Node) -> bool:
    """Whether the nodes from this one on are the operators of a chain, each of which alone reads the one before it."""
    nodes: list[ir.Node] = []
    following: ir.Node | None = node
    while following is not None and len(nodes) < len(chain):
        if not nodes or not is_one_of(following, *LAYOUT):
            nodes.append(following)
        readers = {reader for reader, _ in following.outputs[0].uses()}
        following = readers.pop() if len(readers) == 1 else None
    return is_chain(chain, (), nodes)


def _data(node: ir.Node) -> ir.Value | None:
    """Return the input of an activation, which its first node reads."""
    given = (value for value in node.inputs if value is not None and not constants.is_fixed(value))
    return next((through(value, LAYOUT) for value in given), None)


def _is_link(link: str, node: ir.Node, before: ir.Node | None, x: ir.Value | None) -> bool:
    """Whether a node is this operator of a chain, and reads the one before it."""
    read = [through(value, LAYOUT) for value in node.inputs if value is not None]
    if before is not None and before.outputs[0] not in read:
        return False
    if link == SQUARE:
        return squares(node)
    if link == TIMES_X:
        return is_standard(node, "Mul") and before is not None and x in read
    wanted = number_of(link)
    if wanted is None:
        return link == node.op_type and len(read) == 1
    value, number = unscaled(node.outputs[0])
    rounding = constants.rounding(wanted, value.dtype or ir.DataType.FLOAT)
    return value is not node.outputs[0] and abs(number - wanted) <= rounding
