"""``Add -> LayerNormalization`` that ONNX Runtime's optimiser breaks -> the same function in a form that it keeps.

At its default level ONNX Runtime fuses the two into one ``SkipLayerNormalization`` if the sum has three axes. It does
so even if that operator computes another function: the norm runs over more than the last axis (wrong numbers), or its
scale or bias is a single number of shape ``[1]`` (the session fails). Covers: a constant of shape ``[1]``, which is
expanded to one number for each feature; all other cases by ``Sum`` in place of ``Add``, which the optimiser does not
fuse. Not covered: a sum with other than three axes, or a scale with other than one, which it does not fuse either.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion import constants, rows
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.rule import Found, Match, Rule, standard
from ffn_export.fusion.shapes import is_along_last, last_size
from ffn_export.fusion.views import input_at, is_read, producer, rank

_FUSED_RANK = 3


class NormOfSum(Rule):
    """LayerNormalization of a sum, so that it stays the same function in a session of ONNX Runtime."""

    site = "norm"
    writes = None
    ends = standard("LayerNormalization")

    def match(self, node: ir.Node) -> Found:
        """Recognise a norm that would be broken."""
        x = input_at(node, 0)
        add = producer(x, "Add", within=node.graph)
        if x is None or add is None or len(add.inputs) != 2:
            return None
        if rank(x) not in (None, _FUSED_RANK):
            return None
        over_last = is_along_last(node, x, -1)
        single = [row for row in node.inputs[1:] if row is not None and row.shape == [1]]
        if last_size(x) == 1 or (over_last and not single) or rank(input_at(node, 1)) not in (None, 1):
            return None
        width = last_size(x)
        if over_last and width is not None and all(map(constants.is_constant, single)):
            return Match((node,), _read(node), lambda op: _written_out(op, node, width))
        is_shared = x.is_graph_output() or any(reader is not node for reader in x.consumers())
        outputs = (*_read(node), *((x,) if is_shared else ()))
        return Match((add, node), outputs, lambda op: _summed(op, node, add, keeps_sum=is_shared))


def _read(node: ir.Node) -> tuple[ir.Value, ...]:
    return tuple(value for place, value in enumerate(node.outputs) if place == 0 or is_read(value))


def _norm(op: Builder, node: ir.Node, *inputs: ir.Value | None) -> list[ir.Value]:
    values = op.like(node, *inputs, outputs=len(node.outputs))
    return [value for value, old in zip(values, node.outputs, strict=True) if old in _read(node)]


def _written_out(op: Builder, node: ir.Node, width: int) -> list[ir.Value]:
    given = (None if row is None else rows.of(op, row, [width]) for row in node.inputs[1:])
    return _norm(op, node, node.inputs[0], *given)


def _summed(op: Builder, node: ir.Node, add: ir.Node, *, keeps_sum: bool) -> list[ir.Value]:
    total = op.Sum(*add.inputs)
    return [*_norm(op, node, total, *node.inputs[1:]), *([total] if keeps_sum else [])]
