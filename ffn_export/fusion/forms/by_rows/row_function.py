"""Read a feed-forward as a function of rows, and tell computing nodes from those that only change shapes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from ffn_export.fusion import layout, sites
from ffn_export.fusion.constants import evaluate, integers, is_constant
from ffn_export.fusion.functions.site_reading import Reading, is_baked
from ffn_export.fusion.functions.site_reading import read as read_site
from ffn_export.fusion.region import HALVES, LAYOUT
from ffn_export.fusion.shapes import are_same_axes, is_along_last, last_size
from ffn_export.fusion.views import input_at, is_standard, rank

OPSET = 15  # Shape with a start and an end; Reshape has had allowzero for one version longer
_OF_SHAPES = ("Shape", "Concat", "Gather", "Size", "Constant", "Slice")


def read(model: ir.Model, site: sites.FoundSite, places: Mapping[ir.Node, int]) -> Reading | str:
    """Read a feed-forward in a model with types, or return why its rows cannot be computed independently."""
    if site.nodes[-1].graph is not model.graph:
        return "it is not in the main graph"
    if model.opset_imports.get("", 0) < OPSET:
        return f"computing it by rows needs opset {OPSET}"
    reading = read_site(
        model, site, places, lambda value: is_baked(value) or (is_constant(value) and _is_of_all_rows(value))
    )
    return reading if isinstance(reading, str) else _why_not(reading) or reading


def is_of_shapes(node: ir.Node) -> bool:
    """Whether a node computes only sizes, which are left out by rows."""
    return is_standard(node, *_OF_SHAPES) and node.outputs[0].dtype == ir.DataType.INT64


def is_moved(node: ir.Node) -> bool:
    """Whether a node only reshapes rows."""
    source = input_at(node, 0)
    return source is not None and layout.keeps_last_axis(node, source)


def _why_not(reading: Reading) -> str | None:
    x, end = reading.inputs["x"], reading.end
    widths = last_size(x), last_size(end)
    if None in widths or rank(x) is None or rank(x) != rank(end) or (rank(x) or 0) < 2:
        return "the shapes of its input and its result are not known"
    assert x.shape is not None
    assert end.shape is not None
    # Reshapes in between are left out, so the result must have the tokens of the input.
    if any(map(is_moved, reading.nodes)) and not are_same_axes(x.shape[:-1], end.shape[:-1]):
        return f"the tokens of {end.name!r} are not known to be those of {x.name!r}"
    for node in reading.nodes:
        if is_of_shapes(node) or is_moved(node):
            continue
        if is_standard(node, *LAYOUT) and not is_standard(node, "Cast", "Dropout"):
            return f"{node.op_type} {node.name!r} moves tokens"
        if is_standard(node, *HALVES) and not _is_along_last(node):
            return f"{node.op_type} {node.name!r} is not along the last axis"
        for place, value in enumerate(node.inputs):
            is_weight = node.op_type in sites.PRODUCTS and place == 1
            if is_standard(node, *HALVES) and place > 0 and value is not None and integers(value) is None:
                return f"where {node.op_type} {node.name!r} cuts is computed"
            # A constant that is a node of the region is copied, and must suit rows like any other constant.
            is_computed = value is not None and value.producer() in reading.nodes and not is_constant(value)
            if value is None or value is x or is_weight or is_computed:
                continue
            if not _is_of_all_rows(value):
                return f"{value.name!r} is not known to be a number or a row, the same for every token"
    return None


def _is_of_all_rows(value: ir.Value) -> bool:
    """Whether a constant is a number, a row, or one row of two axes."""
    shape = None if value.shape is None else list(value.shape)
    if shape is None:
        array = evaluate(value)
        shape = None if array is None else list(array.shape)
    return shape is not None and len(shape) <= 2 and shape[:-1] in ([], [1])


def _is_along_last(node: ir.Node) -> bool:
    if node.op_type == "Split":
        return is_along_last(node, node.outputs[0], 0)
    return integers(input_at(node, 3)) in ((-1,), ((rank(node.outputs[0]) or 0) - 1,))
