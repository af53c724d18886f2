"""Products that read one input, and share its 8-bit numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion.inference import prove_shapes
from ffn_export.fusion.views import rank
from ffn_export.quantization.fixed_scales import FixedRange
from ffn_export.quantization.products import Product
from ffn_export.quantization.row_scales import BLOCK_OPSET, DOMAIN, RANGES, SYMMETRIC, Range
from ffn_export.quantization.whole_input import WholeInput

_UNMEASURED = "not smoothed: not measured on samples or drawn inputs"


@dataclass
class Group:
    """Products that read one input.

    Attributes:
        x: The input.
        products: The products, in the order of the graph.
        source: The input after smoothing.
        held: Range of its rows with a scale each, or of all its numbers.
        factors: Factors that its channels are divided by; None without smoothing.
        smoothing: Where the input is smoothed, or why it is not.
        block: Numbers of a row, if one node quantises rows with a scale each.
    """

    x: ir.Value
    products: list[Product]
    source: ir.Value
    held: Range | FixedRange | WholeInput
    factors: Array | None = None
    smoothing: str = _UNMEASURED
    block: int | None = None


def groups(products: Sequence[Product]) -> list[Group]:
    """Group products, which are in the order of the graph, by their input."""
    found: dict[tuple[ir.Value, object], Group] = {}
    for each in products:
        x = each.node.inputs[0]
        assert x is not None
        held = RANGES.get(operator(x), SYMMETRIC)
        found.setdefault((x, each.node.graph), Group(x, [], x, held)).products.append(each)
    return list(found.values())


def set_blocks(model: ir.Model, grouped: Sequence[Group]) -> None:
    """Set the blocks of inputs that have more than one axis, by their proven shapes, if the opset has blocks."""
    if model.opset_imports.get("", 0) < BLOCK_OPSET:
        return
    stated = prove_shapes(model)
    for group in grouped:
        if (rank(group.x) or 0) > 1:
            group.block = group.products[0].d_in
    stated.restore(model)


def operator(value: ir.Value) -> str:
    """Return the operator of ONNX or ONNX Runtime that writes a value; a function of a model may have any name."""
    node = value.producer()
    return "" if node is None or node.domain not in ("", DOMAIN) else node.op_type
