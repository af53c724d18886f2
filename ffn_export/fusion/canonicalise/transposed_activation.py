"""``Transpose -> activation -> Transpose back`` -> the activation alone.

A kernel-1 convolution has its channels on the middle axis. Raised to a matrix product, it leaves a pair of
transposes around the activation that undo each other. Element-wise functions and Casts between them are not
affected; an added constant, such as a bias, is transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from ffn_export.core.activations import OPERATORS_OF_MODULES
from ffn_export.fusion import constants
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Found, Match, Operator, Rule, standard
from ffn_export.fusion.views import input_at, inputs_of, ints_of, is_standard, producer

ELEMENTWISE: frozenset[Operator] = (OPERATORS_OF_MODULES - {("com.microsoft", "BiasGelu")}) | standard(
    "Cast", "Identity"
)
_LONGEST = 4


class TransposedActivation(Rule):
    """Element-wise operators between two transposes that undo each other."""

    site: ClassVar[SiteKind] = "feed_forward"
    writes: ClassVar[str | None] = None
    ends: ClassVar[frozenset[Operator]] = standard("Transpose")

    def match(self, node: ir.Node) -> Found:
        """Recognise the operators between the transposes."""
        between: list[tuple[ir.Node, ir.Value]] = []
        inner = producer(input_at(node, 0))
        while inner is not None and inner.graph is node.graph and len(between) < _LONGEST:
            data = _data(inner)
            if data is None:
                break
            between.append((inner, data))
            inner = producer(data)
        if not between or inner is None or not is_standard(inner, "Transpose") or inner.graph is not node.graph:
            return None
        x = input_at(inner, 0)
        back = ints_of(node, "perm")
        if x is None or not _undo_each_other(ints_of(inner, "perm"), back):
            return None
        if any(array.ndim > len(back) for element, data in between for array in _beside(element, data)):
            return None
        nodes = (node, *(element for element, _ in between), inner)
        return Match(nodes, (node.outputs[0],), lambda op: [_write(op, x, between, back)])


def _data(node: ir.Node) -> ir.Value | None:
    """Return the computed input of an element-wise operator; None for another operator, or if there are two."""
    if (node.domain, node.op_type) in ELEMENTWISE:
        return input_at(node, 0) if len(node.inputs) == 1 else None
    inputs = inputs_of(node)
    if not is_standard(node, "Add") or len(inputs) != 2:
        return None
    computed = [value for value in inputs if constants.evaluate(value) is None]
    return computed[0] if len(computed) == 1 else None


def _beside(node: ir.Node, data: ir.Value) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Return the constant that a node adds; an empty list if it has a single input."""
    arrays = (constants.evaluate(value) for value in node.inputs if value is not data)
    return [array for array in arrays if array is not None]


def _write(op: Builder, x: ir.Value, between: Sequence[tuple[ir.Node, ir.Value]], back: Sequence[int]) -> ir.Value:
    for node, data in reversed(between):
        turned = [array.reshape((1,) * (len(back) - array.ndim) + array.shape) for array in _beside(node, data)]
        x = op.like(node, x, *(op.constant(array.transpose(back), node.outputs[0].dtype) for array in turned))
    return x


def _undo_each_other(there: Sequence[int], back: Sequence[int]) -> bool:
    axes = list(range(len(there)))
    return bool(axes) and sorted(there) == sorted(back) == axes and [there[axis] for axis in back] == axes
