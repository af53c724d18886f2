"""Find feed-forwards that are reported and not fused, because no target has an operator for them.

1. Experts, whose weights are a stack of matrices. A token's matrices are gathered from the stack (``Gather``,
   ``GatherND``), or every token is multiplied by all of them (``MatMul`` or ``Einsum`` with the stack). Only the
   activation between can be fused.
2. Feed-forwards that mix tokens or features of the hidden layer. Some models compute across them: a depthwise
   convolution over the tokens (SegFormer), a response that is normalised over them (ConvNeXt V2), a norm of the hidden
   layer, a product with a matrix over the tokens (the spatial gate of gMLP), a softmax of the features that multiplies
   them (SoLU), or the largest of each few features (maxout).
3. Feed-forwards that read parts of a packed product by an index (``Gather``).
4. Feed-forwards whose first product has a product of low rank added to it: LoRA that was not merged.
5. Feed-forwards whose features are not the last axis: convolutions of kernel 1, and products with the weight on the
   left.
6. Feed-forwards whose hidden layer is combined with other values than those of their input: a condition (FiLM), or a
   mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.activations import activation_name
from ffn_export.fusion.engine import sorted_nodes
from ffn_export.fusion.region import LAYOUT, Region, through
from ffn_export.fusion.shapes import last_size
from ffn_export.fusion.sites import Unfused, data_of, listed, weight_sizes
from ffn_export.fusion.views import input_at, int_of, ints_of, is_standard, producer, rank

_TAKES = ("Gather", "GatherND")
_MIXES = (
    *("AveragePool", "BatchNormalization", "Conv", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"),
    *("GroupNormalization", "InstanceNormalization", "LayerNormalization", "LpNormalization", "MaxPool", "Pad"),
    *("RMSNormalization", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceSum", "ReduceSumSquare"),
)
# Operators that are no activation.
_PLAIN = ("Add", "Cast", "Div", "Gather", "Gemm", "MatMul", "Mul", "Sub", *_MIXES)

# Operators whose features may be another axis than the last -> input with the weight.
_PLACES = {"Conv": 1, "MatMul": 0}
_MATRIX = 2


@dataclass
class _MixedRegion(Region):
    """The nodes between two products, of which some mix tokens or features, or take parts by an index.

    Attributes:
        mixing: Nodes that mix.
        taking: Nodes that take a part of a packed product.
        is_shaped: Whether one of them makes the hidden layer a function of its own, as an activation does.
    """

    mixing: dict[ir.Node, None] = field(default_factory=dict)
    taking: dict[ir.Node, None] = field(default_factory=dict)
    is_shaped: bool = False

    def computes(self, node: ir.Node) -> bool:
        if is_standard(node, "Gather") and constants.is_constant(input_at(node, 1)) and _is_of_split_features(node):
            self.taking[node] = None
            self.is_packed = True
            return True
        shapes = _multiplies_its_input(node) or (is_standard(node, "ReduceMax") and _is_of_split_features(node))
        if shapes or is_standard(node, *_MIXES):
            self.mixing[node] = None
            self.is_shaped = self.is_shaped or shapes
            return True
        return super().computes(node)


class _RegionOverTokens(_MixedRegion):
    """The same, with products whose rows are tokens: the last axis of their data was another one before."""

    def grow(self, value: ir.Value | None, graph: object) -> bool:
        node = producer(value, within=graph)
        if node is None or node in self.seen or data_of(node) is None or not _is_over_tokens(node):
            return super().grow(value, graph)
        self.seen.add(node)
        self.mixing[node] = None
        self.computing[node] = None
        return self.grow(node.inputs[0], graph)


def find(model: ir.Model) -> Iterator[Unfused]:
    """Yield the experts and then the other feed-forwards by their reason, each in graph order of their last nodes."""
    for recognise in (_experts, _mixed, _adapted, _across, _conditioned):
        for graph in (*model.graphs(), *model.functions.values()):
            if recognise is not _adapted or any(map(_reduced, graph)):
                yield from (found for node in graph if (found := recognise(node)) is not None)


def _mixed(product: ir.Node) -> Unfused | None:
    second = weight_sizes(product)
    if second is None:
        return None
    region = _MixedRegion(data_of, constants.is_fixed)
    found = region.grow(product.inputs[0], product.graph) and region.source is not None
    if not found and any(map(_is_over_tokens, region.firsts)):
        region = _RegionOverTokens(data_of, constants.is_fixed)
        found = region.grow(product.inputs[0], product.graph) and region.source is not None
    if not found:
        return None
    first = weight_sizes(next(iter(region.firsts)))
    activation = [node for node in region.activation if not is_standard(node, *_PLAIN)]
    is_wider = first is not None and first[0] == second[1] < second[0]
    is_activated = activation or region.is_gated or region.is_shaped
    if not (region.mixing or region.taking) or not is_wider or not is_activated:
        return None
    said = (
        ("compute", region.mixing, "across tokens or features between its two products"),
        ("take", region.taking, "parts of its first product by an index"),
    )
    reason = "; ".join(_said(verb, sorted_nodes(reversed(by)), what) for verb, by, what in said if by)
    nodes = (*region.firsts, *reversed(region.computing), product)
    return Unfused(nodes, activation_name([], activation), region.is_gated, reason)


def _said(verb: str, nodes: Sequence[ir.Node], what: str) -> str:
    return f"{listed(nodes)} {verb}{'s' if len(nodes) == 1 else ''} {what}"


def _multiplies_its_input(node: ir.Node) -> bool:
    """Whether a softmax is a factor of the values that it is taken of."""
    if not is_standard(node, "Softmax"):
        return False
    pair = {input_at(node, 0), node.outputs[0]}
    return any(is_standard(user, "Mul") and set(user.inputs) == pair for user, _ in node.outputs[0].uses())


def _is_of_split_features(node: ir.Node) -> bool:
    """Whether a node reads along one of the axes that a reshape made of the last one, the features."""
    split = input_at(node, 0)
    reshape = producer(split, "Reshape")
    before, behind = (None, None) if reshape is None else (rank(reshape.inputs[0]), rank(split))
    if before is None or behind is None:
        return False
    axes = (int_of(node, "axis", 0) or 0,) if is_standard(node, "Gather") else constants.integers(input_at(node, 1))
    return behind > before and bool(axes) and all(axis % behind >= before - 1 for axis in axes or ())


def _is_over_tokens(product: ir.Node) -> bool:
    data, sizes = input_at(product, 0), weight_sizes(product)
    turn = None if data is None else producer(through(data, ("Reshape",)), "Transpose")
    if turn is None or sizes is None or last_size(turn.outputs[0]) not in (None, sizes[0]):  # not rows
        return False
    order = ints_of(turn, "perm")
    return bool(order) and order[-1] != len(order) - 1


def _adapted(product: ir.Node) -> Unfused | None:
    second, region = weight_sizes(product), Region(data_of, constants.is_fixed)
    if second is None or not region.grow(product.inputs[0], product.graph) or not region.activation:
        return None
    reduced = {first: before for first in region.firsts if (before := _reduced(first)) is not None}
    plain = [first for first in region.firsts if first not in reduced]
    sources = {data_of(node) for node in (*plain, *reduced.values())}
    sizes = {weight_sizes(first) for first in plain}
    if not plain or not reduced or len(sources) != 1 or sizes != {(second[1], second[0])}:
        return None
    added = [each for each in reduced if _is_added(each.outputs[0])]
    said = (
        ("add", added, "a product of low rank to its first product: merge it into the weight"),
        (
            "compute",
            [each for each in reduced if each not in added],
            "a gate of low rank: merge its two weights into one",
        ),
    )
    reason = "; ".join(_said(verb, by, what) for verb, by, what in said if by)
    is_gated = len(plain) > 1 or len(added) < len(reduced)
    nodes = (*reduced.values(), *region.firsts, *reversed(region.computing), product)
    return Unfused(nodes, activation_name([], region.activation[-1:]), is_gated, reason)


def _is_added(value: ir.Value) -> bool:
    """Whether a value is a term of a sum with another one, as it is or times a constant."""
    for user, place in value.uses():
        is_linear = is_standard(user, "Add", "Sub", "Mul") or (place == 0 and is_standard(user, "Div"))
        if is_linear and constants.is_fixed(input_at(user, 1 - place)):
            return _is_added(user.outputs[0])
        if is_standard(user, "Add", "Sub"):
            return True
    return False


def _reduced(product: ir.Node) -> ir.Node | None:
    """Return the product that gives a product its data, if that is narrower than what the two read and write."""
    data, sizes = data_of(product), weight_sizes(product)
    before = None if data is None else producer(through(data, LAYOUT))
    first = None if before is None else weight_sizes(before)
    return before if first and sizes and first[1] == sizes[0] < min(first[0], sizes[1]) else None


def _across(product: ir.Node) -> Unfused | None:
    second, region = sizes_across(product), Region(_data_across, constants.is_fixed)
    if second is None or not region.grow(_data_across(product), product.graph) or region.source is None:
        return None
    if {sizes_across(first) for first in region.firsts} != {(second[1], second[0])} or second[0] <= second[1]:
        return None
    if not (region.activation or region.is_gated):
        return None
    nodes = (*region.firsts, *reversed(region.computing), product)
    are = "are convolutions of kernel 1" if is_standard(product, "Conv") else "have the weight on the left"
    reason = f"its products {are}, whose features are not the last axis"
    return Unfused(nodes, activation_name([], region.activation), region.is_gated, reason)


def sizes_across(node: ir.Node) -> tuple[int, int] | None:
    """Return ``(d_in, d_out)`` of a product whose features are not the last axis; None for any other node.

    It is a convolution that is a product at every place, or a product with the weight on the left.
    """
    weight = input_at(node, _PLACES[node.op_type]) if is_standard(node, *_PLACES) else None
    if weight is None or weight.shape is None or not weight.shape.is_static() or not constants.is_fixed(weight):
        return None
    sizes = weight.shape.numpy()
    if is_standard(node, "MatMul"):
        return (sizes[1], sizes[0]) if len(sizes) == _MATRIX and not constants.is_fixed(node.inputs[1]) else None
    d_out, d_in, *kernel = sizes
    moved = (*ints_of(node, "pads"), *(stride - 1 for stride in ints_of(node, "strides")))
    return None if any(moved) or set(kernel) != {1} or int_of(node, "group", 1) != 1 else (d_in, d_out)


def _data_across(node: ir.Node) -> ir.Value | None:
    return None if sizes_across(node) is None else node.inputs[1 - _PLACES[node.op_type]]


def _conditioned(product: ir.Node) -> Unfused | None:
    second = weight_sizes(product)
    conditions: dict[ir.Value, None] = {}

    def is_given(value: ir.Value) -> bool:
        if value.is_graph_input() and not constants.is_fixed(value):
            conditions[value] = None
            return True
        return constants.is_fixed(value)

    region = Region(data_of, is_given)
    if second is None or second[0] <= second[1] or not region.grow(product.inputs[0], product.graph):
        return None
    own = {first for first in region.firsts if weight_sizes(first) == (second[1], second[0])}
    read = [through(data, LAYOUT) for first in region.firsts if (data := data_of(first)) is not None]
    activation = [node for node in region.activation if not is_standard(node, *_PLAIN)]
    x = next((value for value, first in zip(read, region.firsts, strict=True) if first in own), None)
    conditions |= dict.fromkeys(value for value in read if value is not x)
    if x is None or not conditions or not activation or any(map(_reduced, region.firsts)):
        return None
    named = ", ".join(repr(value.name) for value in conditions)
    nodes = (*region.firsts, *reversed(region.computing), product)
    reason = f"its hidden layer is also a function of {named}, which no operator takes"
    return Unfused(nodes, activation_name([], activation), read.count(x) > 1, reason)


def _experts(product: ir.Node) -> Unfused | None:
    count, region = _count(product), Region(_data_of_experts, _is_given)
    if count is None or not region.grow(_data_of_experts(product), product.graph) or region.source is None:
        return None
    if any(_count(first) != count for first in region.firsts) or not (region.activation or region.is_gated):
        return None
    nodes = (*region.firsts, *reversed(region.computing), product)
    reason = f"the weights of its {count} experts are a stack: no operator multiplies rows by one matrix each"
    return Unfused(nodes, activation_name([], region.activation), region.is_gated, reason)


def _count(product: ir.Node) -> int | None:
    """Return the number of experts in a product's stack; None for any other node."""
    if not is_standard(product, "MatMul", "Einsum") or len(product.inputs) != 2:
        return None
    shapes = [None if (stack := _stack(value)) is None else stack.shape for value in product.inputs]
    known = [shape for shape in shapes if shape is not None and len(shape) == 3]
    if len(known) != 1 or not isinstance(known[0][0], int):
        return None
    return known[0][0]


def _stack(value: ir.Value | None) -> ir.Value | None:
    """Return the constant stack that a value is, or that it was gathered from for each token."""
    if value is None:
        return None
    node = through(value, LAYOUT).producer()
    taken = input_at(node, 0) if node is not None and is_standard(node, *_TAKES) else through(value, LAYOUT)
    return taken if taken is not None and constants.is_fixed(taken) else None


def _data_of_experts(product: ir.Node) -> ir.Value | None:
    if _count(product) is None:
        return None
    return next((value for value in product.inputs if value is not None and _stack(value) is None), None)


def _is_given(value: ir.Value) -> bool:
    """Whether a value is a constant, or gathered from one, such as the biases of the chosen experts."""
    return _stack(value) is not None
