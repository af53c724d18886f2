"""``Flatten -> norm -> Reshape back`` -> the norm alone.

The standard defines ``LayerNormalization`` on rows: it flattens the input, and reshapes the result back. A norm over
the last axis computes the same numbers without that. Covers: any layout nodes before the norm that keep its axis; its
mean and inverse deviation, if they are reshaped like the result. Not covered: a norm of rows that hold several axes; a
result of another shape than the input.

Source: ``LayerNormalization`` in the ONNX operator specification.
"""

from __future__ import annotations

import onnx_ir as ir

from ffn_export.fusion import layout
from ffn_export.fusion.canonicalise.norm_affine import NORMS
from ffn_export.fusion.rule import Found, Match, Rule, standard
from ffn_export.fusion.shapes import are_same_axes, is_along_last
from ffn_export.fusion.views import input_at, is_read, is_standard, producer


class NormOfRows(Rule):
    """A norm over the last axis of an input that is reshaped to rows, and back."""

    site = "norm"
    writes = None
    ends = standard("Reshape")

    def match(self, node: ir.Node) -> Found:
        """Recognise the reshapes around the norm."""
        norm = producer(input_at(node, 0), *NORMS, within=node.graph)
        rows = input_at(norm, 0)
        if norm is None or rows is None or len(norm.outputs[0].consumers()) > 1 or norm.outputs[0].is_graph_output():
            return None
        seen = layout.before(rows, node.graph)
        if not seen.nodes or not is_along_last(norm, rows, -1) or not _has_shape_of(node, seen.value):
            return None
        others = [_reshaped(value, seen.value) for value in norm.outputs[1:] if is_read(value)]
        if any(each is None for each in others) or (others and len(others) < len(norm.outputs) - 1):
            return None
        reshapes = [node, *(each for each in others if each is not None)]
        values = tuple(each.outputs[0] for each in reshapes)
        inputs = (seen.value, *norm.inputs[1:])
        return Match((norm, *reshapes), values, lambda op: op.like(norm, *inputs, outputs=len(values), axis=-1))


def _has_shape_of(reshape: ir.Node, x: ir.Value) -> bool:
    shape = producer(input_at(reshape, 1), "Shape")
    if shape is not None and shape.inputs[:1] == (x,) and not shape.attributes:
        return True
    own = reshape.outputs[0].shape
    return own is not None and x.shape is not None and len(own) == len(x.shape) and are_same_axes(own, x.shape)


def _reshaped(statistic: ir.Value, x: ir.Value) -> ir.Node | None:
    """Return the one node that gives a statistic of rows the shape of ``x`` with a last axis of size 1."""
    users = statistic.consumers()
    node = users[0] if len(users) == 1 and not statistic.is_graph_output() else None
    shape = None if node is None or not is_standard(node, "Reshape") else node.outputs[0].shape
    if node is None or shape is None or x.shape is None or len(shape) != len(x.shape):
        return None
    return node if shape[-1] == 1 and are_same_axes(shape[:-1], x.shape[:-1]) else None
