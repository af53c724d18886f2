"""Products that read one input, and share its 8-bit numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion.inference import prove_shapes
from ffn_export.fusion.shapes import are_same_axes
from ffn_export.fusion.views import is_one_of, rank
from ffn_export.quantization.products import Product
from ffn_export.quantization.row_scales import BLOCK_OPSET, DOMAIN, RANGES, SYMMETRIC, InputTraits
from ffn_export.quantization.smoothing import Channels
from ffn_export.quantization.whole_input import AnyRange
from ffn_export.quantization.whole_rows import ROW_BY_ROW, are_rows_whole, takes_floats

_UNMEASURED = "not smoothed: not measured on samples or drawn inputs"


@dataclass
class Group:
    """Products that read one input.

    Attributes:
        x: The input.
        products: The products, in the order of the graph.
        source: The input after smoothing.
        traits: What is known of the input.
        held: Range of its rows with a scale each, or of all its numbers.
        factors: Factors that its channels are divided by; None without smoothing.
        smoothing: Where the input is smoothed, or why it is not.
        channels: Statistics of the input; None if it was not measured.
        carrier: The group that makes a row of its result NaN where one of this input is, if this one does not; None if
            there is no such group.
        carries: Groups that it does so for.
    """

    x: ir.Value
    products: list[Product]
    source: ir.Value
    traits: InputTraits
    held: AnyRange
    factors: Array | None = None
    smoothing: str = _UNMEASURED
    channels: Channels | None = None
    carrier: Group | None = None
    carries: list[Group] = field(default_factory=list)


def groups(products: Sequence[Product], opset: int) -> list[Group]:
    """Group products, which are in the order of the graph, by their input."""
    found: dict[tuple[ir.Value, object], Group] = {}
    for each in products:
        x = each.node.inputs[0]
        assert x is not None
        held = RANGES.get(operator(x), SYMMETRIC)
        found.setdefault((x, each.node.graph), Group(x, [], x, InputTraits(opset), held)).products.append(each)
    return list(found.values())


def read_shapes(model: ir.Model, grouped: Sequence[Group]) -> None:
    """Set what proven shapes tell: the traits of inputs, and carriers."""
    group_of = {each.node: group for group in grouped for each in group.products}
    is_guarded = takes_floats(model)
    stated = prove_shapes(model)
    for group in grouped:
        has_blocks = group.traits.opset >= BLOCK_OPSET and (rank(group.x) or 0) > 1
        group.traits = replace(
            group.traits,
            block=group.products[0].shape[0] if has_blocks else None,
            are_rows_whole=not is_guarded or are_rows_whole(group.x),
        )
        group.carrier = _carrier(group, group_of)
    stated.restore(model)


def _carrier(group: Group, group_of: Mapping[ir.Node, Group]) -> Group | None:
    """Return the only group that reads what the products of a group give, if each row of it comes from one row."""
    graph, found = group.products[0].node.graph, dict[int, Group]()
    waiting = [each.node.outputs[0] for each in group.products]
    seen = set(waiting)
    while waiting:
        value = waiting.pop()
        if value.is_graph_output():
            return None
        for node in value.consumers():
            reader = group_of.get(node)
            if node.graph is not graph or (reader is None and not is_one_of(node, *ROW_BY_ROW)):
                return None
            if reader is not None:
                found[id(reader)] = reader
            elif node.outputs[0] not in seen:
                seen.add(node.outputs[0])
                waiting.append(node.outputs[0])
    carrier = next(iter(found.values())) if len(found) == 1 else None
    if carrier is None or carrier is group or group.x.shape is None or carrier.x.shape is None:
        return None
    rows, others = group.x.shape[:-1], carrier.x.shape[:-1]
    return carrier if len(rows) == len(others) and are_same_axes(rows, others) else None


def operator(value: ir.Value) -> str:
    """Return the operator of ONNX or ONNX Runtime that writes a value; a function of a model may have any name."""
    node = value.producer()
    return "" if node is None or node.domain not in ("", DOMAIN) else node.op_type
