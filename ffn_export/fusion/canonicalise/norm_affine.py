"""A scale or bias after a norm that has none -> the scale or bias of the norm.

A decomposed norm ends in ``Mul`` and ``Add`` with a row. So does torch's norm without affine parameters if the
model applies ``1 + w`` itself. Covers: rows of shape ``[d]`` or ``[1, 1, d]``; a single number; constant
expressions; several scales of one shared norm, which is copied for each.
Not covered: a scale that differs from token to token (adaptive norms).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import onnx_ir as ir

from ffn_export.fusion import rows
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.rule import Found, Match, Refused, Rule, standard
from ffn_export.fusion.statistics import widths
from ffn_export.fusion.views import input_at, inputs_of, int_of, is_read, is_standard, orders, producer, rank

NORMS = ("LayerNormalization", "RMSNormalization")


class NormAffine(Rule):
    """Base of both rules. A subclass names the norms, and the part that they take."""

    site = "norm"
    norms: ClassVar[tuple[str, ...]]
    part: ClassVar[str]

    def match(self, node: ir.Node) -> Found:
        """Recognise the row beside the norm."""
        for norm, given in _norm_and_row(node, self.norms):
            if not self.has_room(norm):
                continue
            sizes = _normalised(norm)
            row = given if sizes is None else rows.unshaped(given, sizes)
            if sizes is None or not rows.fits(row, rank(norm.inputs[0]), sizes) or row.dtype != norm.outputs[0].dtype:
                return None
            others = norm.outputs[1:] if any(map(is_read, norm.outputs[1:])) else ()
            if others and len(norm.outputs[0].consumers()) > 1:
                return None
            if not all(_takes_a_row(user, norm) for user in norm.outputs[0].consumers()):
                return Refused(f"the norm without its {self.part} is also read elsewhere", (norm, node))
            if norm.outputs[0].is_graph_output():
                return Refused(f"the norm without its {self.part} is a graph output", (norm, node))
            # The norm stays for its other readers, each of which gets a copy with its row.
            nodes = (node,) if len(norm.outputs[0].consumers()) > 1 else (norm, node)
            return Match(nodes, (node.outputs[0], *others), partial(self.write, norm, row, sizes))
        return None

    @abstractmethod
    def has_room(self, norm: ir.Node) -> bool:
        """Whether the norm still lacks this part."""

    def write(self, norm: ir.Node, row: ir.Value, sizes: list[int], op: Builder) -> Sequence[ir.Value]:
        """Write the norm with the row."""
        count = len(norm.outputs) if any(map(is_read, norm.outputs[1:])) else 1
        return op.like(norm, *self.before(norm), rows.of(op, row, sizes), outputs=count)

    @abstractmethod
    def before(self, norm: ir.Node) -> Sequence[ir.Value | None]:
        """Return the inputs of the norm that come before the row."""


class NormScale(NormAffine):
    """``norm(x) * row`` -> the norm with that scale."""

    writes = None
    ends = standard("Mul")
    norms = NORMS
    part = "scale"

    def has_room(self, norm: ir.Node) -> bool:
        """Whether the norm's scale is all ones and it has no bias."""
        return rows.is_ones(input_at(norm, 1)) and input_at(norm, 2) is None

    def before(self, norm: ir.Node) -> Sequence[ir.Value | None]:
        """Return the norm's data."""
        return norm.inputs[:1]


class NormBias(NormAffine):
    """``norm(x) + row`` -> the norm with that bias."""

    writes = None
    ends = standard("Add")
    norms = ("LayerNormalization",)
    part = "bias"

    def has_room(self, norm: ir.Node) -> bool:
        """Whether the norm has no bias."""
        return input_at(norm, 2) is None

    def before(self, norm: ir.Node) -> Sequence[ir.Value | None]:
        """Return the norm's data and scale."""
        return norm.inputs[:2]


def _norm_and_row(node: ir.Node, norms: tuple[str, ...]) -> list[tuple[ir.Node, ir.Value]]:
    found = []
    for value, row in orders(node):
        norm = producer(value, *norms, within=node.graph)
        if norm is not None and len(norm.inputs) > 1:
            found.append((norm, row))
    return found


def _takes_a_row(user: ir.Node, norm: ir.Node) -> bool:
    """Whether a reader of a norm multiplies or adds a row, so that it can have a copy of the norm."""
    sizes = _normalised(norm)
    if not is_standard(user, "Mul", "Add") or user.graph is not norm.graph or sizes is None:
        return False
    others = [value for value in inputs_of(user) if value is not norm.outputs[0]]
    return len(others) == 1 and rows.fits(rows.unshaped(others[0], sizes), rank(norm.inputs[0]), sizes)


def _normalised(norm: ir.Node) -> list[int] | None:
    x, axis = norm.inputs[0], int_of(norm, "axis", -1)
    width = rank(x)
    if x is None or width is None or axis is None or not -width <= axis < width:
        return None
    return widths(x, -axis if axis < 0 else width - axis)
