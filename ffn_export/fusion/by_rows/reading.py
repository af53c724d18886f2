"""Reads a feed-forward as a function of rows: which of its nodes compute, and which only shape what is computed."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from ffn_export.fusion import layout, sites
from ffn_export.fusion.constants import integers
from ffn_export.fusion.constants import rank as rank_of_constant
from ffn_export.fusion.outline_site import Reading
from ffn_export.fusion.outline_site import read as read_site
from ffn_export.fusion.shapes import last_size
from ffn_export.fusion.views import input_at, is_standard, rank

# Shape with a start and an end, Pad with axes as an input, Reshape with allowzero.
OPSET = 18
_OF_SHAPES = ("Shape", "Concat", "Gather", "Size", "Constant", "Slice")


def read(model: ir.Model, site: sites.FoundSite, places: Mapping[ir.Node, int]) -> Reading | str:
    """Read a feed-forward, or return why its rows cannot be computed apart.

    Args:
        model: The model, whose values have types.
        site: A feed-forward of it.
        places: The place of every node in its graph.
    """
    if site.nodes[-1].graph is not model.graph:
        return "it is not in the main graph"
    if model.opset_imports.get("", 0) < OPSET:
        return f"computing it by rows needs opset {OPSET}"
    reading = read_site(model, site, places)
    return reading if isinstance(reading, str) else _why_not(reading) or reading


def is_of_shapes(node: ir.Node) -> bool:
    """Whether a node computes with sizes alone; rows have their own."""
    return is_standard(node, *_OF_SHAPES) and node.outputs[0].dtype == ir.DataType.INT64


def is_moved(node: ir.Node) -> bool:
    """Whether a node gives the same rows in another shape."""
    source = input_at(node, 0)
    return source is not None and layout.keeps_last_axis(node, source)


def _why_not(reading: Reading) -> str | None:
    x, end = reading.inputs["x"], reading.end
    widths = last_size(x), last_size(end)
    if None in widths or rank(x) is None or rank(x) != rank(end) or (rank(x) or 0) < 2:
        return "the shapes of its input and its result are not known"
    for node in reading.nodes:
        if is_of_shapes(node) or is_moved(node):
            continue
        if is_standard(node, *sites.LAYOUT) and not is_standard(node, "Cast", "Dropout"):
            return f"{node.op_type} {node.name!r} moves tokens"
        if is_standard(node, *sites.HALVES) and not _is_along_last(node):
            return f"{node.op_type} {node.name!r} is not along the last axis"
        fixed = [value for value in node.inputs if value is not None and value.producer() not in reading.nodes]
        wide = [value for value in fixed if value is not x and rank_of_constant(value) > 2]
        if wide:
            return f"{wide[0].name!r} has more than two axes"
    return None


def _is_along_last(node: ir.Node) -> bool:
    last = (rank(node.outputs[0]) or 0) - 1
    if node.op_type == "Split":
        return node.attributes.get_int("axis", 0) in (-1, last)
    return integers(input_at(node, 3)) in ((-1,), (last,))
