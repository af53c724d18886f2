"""Find feed-forwards, norms and residual + norm pairs in a graph, in any form.

Sites are read off the graph alone, so a report describes the graph and not the intent of a rule. A feed-forward is
recognised by its second product: read backwards from there, all nodes are element-wise up to one product with a
constant matrix, or two of the same input, that give it its width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.activations import activation_name, has_formula
from ffn_export.fusion.forms.padded_widths.units import plain_shape
from ffn_export.fusion.linear import is_turned, weight_of
from ffn_export.fusion.region import ELEMENTWISE, LARGEST, LAYOUT, Region, through
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.shapes import last_size
from ffn_export.fusion.views import input_at, int_of, is_one_of, producer

SKIP_NORMS = ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
NORMS = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
PRODUCTS = ("MatMul", "Gemm", "FusedGemm")
QUANTIZED = "MatMulNBits"
INTEGER_PRODUCT = "MatMulIntegerToFloat"
INTEGER_PRODUCTS = frozenset({INTEGER_PRODUCT, "MatMulInteger", "QLinearMatMul", "DynamicQuantizeMatMul"})


@dataclass(frozen=True)
class FoundSite:
    """A site and its nodes.

    Attributes:
        kind: Kind of site.
        nodes: Nodes of the site; the last one ends it.
        activation: As in :class:`~ffn_export.fusion.report.Site`, as are ``gated``, ``d_model`` and ``d_ff``.
        decomposed: Reason why its activation, or its sum and norm, is not one operator; None if it is.
        between: Computing nodes between the two products of a feed-forward, for one part of a split hidden layer.
        parts: Number of parts of a split hidden layer; 1 if it is whole.
    """

    kind: SiteKind
    nodes: tuple[ir.Node, ...]
    activation: str | None = None
    gated: bool | None = None
    d_model: int | None = None
    d_ff: int | None = None
    decomposed: str | None = None
    between: tuple[ir.Node, ...] = ()
    parts: int = 1

    @property
    def is_tight(self) -> bool:
        """Whether at most one node computes between the products, two in a gated feed-forward."""
        return len(self.between) <= (2 if self.gated else 1)


@dataclass(frozen=True)
class Unfused:
    """A feed-forward that is only reported, because no target has an operator for it.

    Attributes:
        nodes: Nodes of the feed-forward; the last one is the second product.
        activation: Activation; None if it has no name here.
        gated: Whether it multiplies the activation by a second projection.
        reason: Why it is not fused.
    """

    nodes: tuple[ir.Node, ...]
    activation: str | None
    gated: bool
    reason: str


def find(model: ir.Model) -> list[FoundSite]:
    """Return all sites of the model's graphs, in graph order of their last nodes."""
    graphs = (*model.graphs(), *model.functions.values())
    return _joined(site for graph in graphs for node in graph for site in _sites_ending_at(node))


def feed_forwards(model: ir.Model) -> list[FoundSite]:
    """Return the feed-forwards of the model, without those inside its functions."""
    in_functions = {node for function in model.functions.values() for node in function.all_nodes()}
    return [site for site in find(model) if site.kind == "feed_forward" and site.nodes[-1] not in in_functions]


def _joined(found: Iterable[FoundSite]) -> list[FoundSite]:
    """Join feed-forwards of one input that are added up one after the other: parts of a split hidden layer."""
    sites: list[FoundSite] = []
    ending: dict[ir.Value, FoundSite] = {}
    for part in found:
        total, adding = _added_to(part) if part.kind == "feed_forward" else (None, ())
        before = None if total is None else _of_same_layer(part, total, ending)
        site = part if before is None else _with(part, before, adding)
        if before is not None:
            sites.remove(before)
        sites.append(site)
        ending[site.nodes[-1].outputs[0]] = site
    return sites


def _with(part: FoundSite, before: FoundSite, adding: Sequence[ir.Node]) -> FoundSite:
    return replace(
        part,
        nodes=(*before.nodes, *part.nodes, *adding),
        d_ff=(before.d_ff or 0) + (part.d_ff or 0),
        parts=before.parts + 1,
    )


def _added_to(site: FoundSite) -> tuple[ir.Value | None, Sequence[ir.Node]]:
    """Return the value that a feed-forward adds its result to, and the adding node if it is not the second product."""
    second = next(node for node in reversed(site.nodes) if weight_sizes(node) is not None)
    if is_one_of(second, "Gemm"):
        return input_at(second, 2), ()
    users = second.outputs[0].consumers()
    if second.op_type != QUANTIZED or len(users) != 1 or not is_one_of(users[0], "Add"):
        return None, ()
    return next((v for v in users[0].inputs if v is not second.outputs[0]), None), users


def _of_same_layer(site: FoundSite, total: ir.Value, ending: Mapping[ir.Value, FoundSite]) -> FoundSite | None:
    """Return the feed-forward with this result, if nothing else reads it and it has the same input and kind."""
    before = None if len(total.consumers()) != 1 else ending.get(total)
    alike = before is not None and before.kind == site.kind and _kind_of(before) == _kind_of(site)
    return before if alike else None


def _kind_of(site: FoundSite) -> tuple[object, ...]:
    first = next(node for node in site.nodes if data_of(node) is not None)
    source = data_of(first)
    return (site.activation, site.gated, site.d_model, None if source is None else through(source, LAYOUT))


def _sites_ending_at(node: ir.Node) -> Iterator[FoundSite]:
    x = input_at(node, 0)
    if is_one_of(node, *NORMS):
        yield FoundSite("norm", (node,), d_model=last_size(x))
        add = None if x is None else producer(through(x, LAYOUT), "Add")
        if add is not None and not any(map(constants.is_fixed, add.inputs)):
            apart = "the sum and its norm are two nodes"
            yield FoundSite("residual_norm", (add, node), d_model=last_size(x), decomposed=apart)
    if is_one_of(node, *SKIP_NORMS):
        yield FoundSite("norm", (node,), d_model=last_size(x))
        yield FoundSite("residual_norm", (node,), d_model=last_size(x))
    site = _feed_forward(node)
    if site is not None:
        yield site


def _feed_forward(product: ir.Node) -> FoundSite | None:
    second = weight_sizes(product)
    if second is None:
        return None
    region = Region(data_of, constants.is_fixed)
    if not region.grow(product.inputs[0], product.graph) or region.source is None:
        return None
    firsts = list(region.firsts)
    sizes = weight_sizes(firsts[0])
    if sizes is None or sizes[0] != second[1]:
        return None
    gated, activation = region.is_gated, region.activation
    activated = [n for n in firsts if n.op_type == "FusedGemm"]
    if not activation and not activated and not gated:
        return None
    name = activation_name(activated, activation, region.biases)
    bias = _bias_after(product)
    nodes = (*firsts, *reversed(region.computing), product, *([bias] if bias is not None else []))
    return FoundSite(
        "feed_forward",
        nodes,
        activation=name,
        gated=gated,
        d_model=second[1],
        d_ff=second[0],
        decomposed=_decomposed(name, [*activated, *activation]),
        between=tuple(reversed(region.computing)),
    )


def _decomposed(name: str | None, activation: list[ir.Node]) -> str | None:
    if len(activation) <= 1 or has_formula(name):
        return None
    return f"{name or 'the activation'} is decomposed into {len(activation)} nodes: {listed(activation)}"


def listed(nodes: Sequence[ir.Node]) -> str:
    """List nodes in words for a reason: their operators, and the names of the first and the last."""
    operators = " ".join(node.op_type for node in nodes)
    ends = [repr(node.name) for node in (nodes[0], nodes[-1]) if node.name]
    if len(nodes) == len(ends[:1]):
        return f"{operators} {ends[0]}"
    return f"{operators}, from {ends[0]} to {ends[1]}" if len(ends) == 2 else operators


def data_of(node: ir.Node) -> ir.Value | None:
    """Return the data input of a product with a constant matrix; None for any other node."""
    return None if weight_sizes(node) is None else node.inputs[0]


def weight_sizes(node: ir.Node) -> tuple[int, int] | None:
    """Return the unpadded ``(d_in, d_out)`` of a product with a constant matrix; None for any other node."""
    if node.op_type == QUANTIZED and node.domain == "com.microsoft":
        d_in, d_out = int_of(node, "K", 0), int_of(node, "N", 0)
        return (d_in, d_out) if d_in and d_out else None
    if not is_one_of(node, *PRODUCTS) or int_of(node, "transA", 0):
        return None
    weight = weight_of(node)
    if weight is None or input_at(node, 0) is None:
        return None
    d_in, d_out = plain_shape(weight).numpy()
    return (d_out, d_in) if is_turned(node) else (d_in, d_out)


def _bias_after(product: ir.Node) -> ir.Node | None:
    users = [user for user, _ in product.outputs[0].uses()]
    if len(users) == 1 and is_one_of(users[0], "Add") and any(map(constants.is_fixed, users[0].inputs)):
        return users[0]
    return None


def leads_to_a_product(node: ir.Node) -> bool:
    """Whether a node's result reaches a product with a constant matrix through element-wise and layout nodes."""
    waiting, seen = [node], {node}
    while waiting and len(seen) < LARGEST:
        for user, place in (use for value in waiting.pop().outputs for use in value.uses()):
            if weight_sizes(user) is not None and place == 0:
                return True
            moves = (user.domain, user.op_type) in ELEMENTWISE or is_one_of(user, *LAYOUT)
            if user not in seen and user.graph is node.graph and moves:
                seen.add(user)
                waiting.append(user)
    return False
