"""Finds feed-forwards, norms and residual + norm pairs in a graph, in canonical or fused form.

What is found is read off the graph alone, so a report describes what is there and not what a rule
meant to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.report import SiteKind

SKIP_NORMS = ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
NORMS = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
_LAYOUT = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Cast", "Identity")
# An operator of another domain may have a known name and mean another thing.
_DOMAINS = frozenset({"", "com.microsoft"})
_SINGLE = {
    "Relu": "relu",
    "Tanh": "tanh",
    "Elu": "elu",
    "Mish": "mish",
    "HardSwish": "hardswish",
    "LeakyRelu": "leaky_relu",
}  # fmt: skip


@dataclass(frozen=True)
class FoundSite:
    """A site, and the nodes that it consists of, in the order of the data."""

    kind: SiteKind
    nodes: tuple[ir.Node, ...]
    activation: str | None = None
    gated: bool | None = None
    d_model: int | None = None
    d_ff: int | None = None
    in_pieces: str | None = None


@dataclass(frozen=True)
class _Linear:
    """A product with a constant matrix [d_in, d_out], and its bias where it has one."""

    nodes: tuple[ir.Node, ...]
    source: ir.Value
    d_in: int
    d_out: int


@dataclass(frozen=True)
class _Activation:
    """An activation, and the linear layer before it where one node holds both."""

    name: str
    nodes: tuple[ir.Node, ...]
    source: ir.Value
    in_pieces: bool = False
    fused_with: _Linear | None = None

    def linear(self) -> _Linear | None:
        """Return the linear layer that it is the activation of."""
        return self.fused_with or _linear_before(self.source)


def find(model: ir.Model) -> list[FoundSite]:
    """Return all sites of the model's graphs, in graph order of the nodes that end them."""
    found: list[FoundSite] = []
    for graph in (model.graph, *model.graph.subgraphs()):
        for node in graph:
            found.extend(_sites_ending_at(node))
    return found


def _sites_ending_at(node: ir.Node) -> Iterator[FoundSite]:
    if _is(node, *NORMS):
        yield FoundSite("norm", (node,), d_model=_last_dim(_input(node)))
        add = _producer(_through_layout(_input(node)))
        if add is not None and _is(add, "Add") and not any(map(constants.is_constant, add.inputs)):
            apart = "the sum and its norm are two nodes"
            yield FoundSite("residual_norm", (add, node), d_model=_last_dim(_input(node)), in_pieces=apart)
    if _is(node, *SKIP_NORMS):
        yield FoundSite("norm", (node,), d_model=_last_dim(_input(node)))
        yield FoundSite("residual_norm", (node,), d_model=_last_dim(_input(node)))
    site = _feed_forward(node)
    if site is not None:
        yield site


def _feed_forward(product: ir.Node) -> FoundSite | None:
    """Recognise a feed-forward by its second product."""
    second = _linear(product)
    if second is None:
        return None
    bias = _bias_after(product)
    ending = (*second.nodes, *([bias] if bias is not None else []))
    hidden = _through_layout(second.source)
    plain = _activation(hidden)
    if plain is not None:
        first = plain.linear()
        if first is not None and first.d_in == second.d_out:
            nodes = (*first.nodes, *plain.nodes, *ending)
            pieces = _pieces(plain)
            return FoundSite("feed_forward", nodes, plain.name, False, first.d_in, first.d_out, pieces)
    gate = _producer(hidden)
    if gate is None or not _is(gate, "Mul"):
        return None
    for activated, other in _either_way(gate):
        gated = _activation(_through_layout(activated))
        if gated is None:
            continue
        first, up = gated.linear(), _linear_before(other)
        if first is not None and up is not None and first.d_in == second.d_out and _have_one_source(first, up):
            nodes = tuple(dict.fromkeys((*first.nodes, *gated.nodes, *up.nodes, gate, *ending)))
            return FoundSite("feed_forward", nodes, gated.name, True, first.d_in, second.d_in, _pieces(gated))
    return None


def _have_one_source(gate: _Linear, up: _Linear) -> bool:
    return _through_layout(gate.source) is _through_layout(up.source)


def _pieces(activation: _Activation) -> str | None:
    return f"{activation.name} is in {len(activation.nodes)} pieces" if activation.in_pieces else None


def _linear(node: ir.Node | None) -> _Linear | None:
    return _product(node) if node is not None and _is(node, "MatMul", "Gemm") else None


def _product(node: ir.Node) -> _Linear | None:
    """Recognise a product with a constant matrix."""
    if node.attributes.get_int("transA", False):
        return None
    source, weight = _input(node), _input(node, 1)
    if source is None or weight is None or not constants.is_constant(weight) or weight.shape is None:
        return None
    if len(weight.shape) != 2 or not all(isinstance(d, int) for d in weight.shape):
        return None
    d_in, d_out = weight.shape.numpy()
    if node.op_type != "MatMul" and node.attributes.get_int("transB", False):
        d_in, d_out = d_out, d_in
    return _Linear((node,), source, d_in, d_out)


def _linear_before(value: ir.Value | None) -> _Linear | None:
    """Recognise ``x W`` or ``x W + b`` as what a value comes from, also as one half of a packed product."""
    value = _through_layout(value)
    node = _producer(value)
    if node is None or value is None:
        return None
    if _is(node, "Split", "Slice"):
        packed = _linear_before(_input(node))
        return None if packed is None else _Linear((*packed.nodes, node), packed.source, packed.d_in, packed.d_out)
    if _is(node, "Add"):
        for bias, rest in _either_way(node):
            if constants.is_constant(bias):
                linear = _linear(_producer(_through_layout(rest)))
                return (
                    None if linear is None else _Linear((*linear.nodes, node), linear.source, linear.d_in, linear.d_out)
                )
    return _linear(node)


def _bias_after(product: ir.Node) -> ir.Node | None:
    users = [user for user, _ in product.outputs[0].uses()]
    if len(users) == 1 and _is(users[0], "Add") and any(map(constants.is_constant, users[0].inputs)):
        return users[0]
    return None


def _activation(value: ir.Value | None) -> _Activation | None:
    node = _producer(value)
    source = None if node is None else _input(node)
    if node is None or source is None:
        return None
    if _is(node, *_SINGLE):
        return _Activation(_SINGLE[node.op_type], (node,), source)
    if _is(node, "BiasGelu", "FastGelu"):
        return _Activation("gelu" if node.op_type == "BiasGelu" else "gelu_tanh", (node,), source)
    if _is(node, "FusedGemm"):
        name = _SINGLE.get(node.attributes.get_string("activation", ""))
        linear = _product(node)
        return None if name is None or linear is None else _Activation(name, (), source, fused_with=linear)
    if _is(node, "Gelu"):
        kind = node.attributes.get_string("approximate", "none")
        return _Activation("gelu_tanh" if kind == "tanh" else "gelu", (node,), source)
    if _is(node, "Swish", "QuickGelu"):
        default = 1.0 if node.op_type == "Swish" else 1.702
        return _Activation(_swish_name(node.attributes.get_float("alpha", default), source.dtype), (node,), source)
    return _squared_relu(node) or _swish_in_pieces(node)


def _squared_relu(node: ir.Node) -> _Activation | None:
    squared = (_is(node, "Pow") and constants.equals(_input(node, 1), 2.0)) or (
        _is(node, "Mul") and _input(node) is _input(node, 1)
    )
    relu = _activation(_through_layout(_input(node))) if squared else None
    if relu is None or relu.name != "relu":
        return None
    return _Activation("relu2", (*relu.nodes, node), relu.source, fused_with=relu.fused_with)


def _swish_in_pieces(node: ir.Node) -> _Activation | None:
    if not _is(node, "Mul"):
        return None
    for x, gate in _either_way(node):
        sigmoid = _producer(gate)
        if x is None or sigmoid is None or not _is(sigmoid, "Sigmoid"):
            continue
        if _input(sigmoid) is x:
            return _Activation("silu", (sigmoid, node), x, in_pieces=True)
        scaled = _producer(_input(sigmoid))
        alpha = None if scaled is None else _factor(scaled, x)
        if scaled is not None and alpha is not None:
            return _Activation(_swish_name(alpha, x.dtype), (scaled, sigmoid, node), x, in_pieces=True)
    return None


def _factor(product: ir.Node, x: ir.Value) -> float | None:
    """Return the constant that a product multiplies ``x`` by."""
    factors = (constants.scalar(other) for value, other in _either_way(product) if value is x)
    return next((factor for factor in factors if factor is not None), None) if _is(product, "Mul") else None


def _swish_name(alpha: float, dtype: ir.DataType | None) -> str:
    """Name the slope; it may have been rounded to the dtype of the graph."""
    for name, known in (("silu", 1.0), ("quick_gelu", 1.702)):
        if abs(alpha - known) <= constants.rounding(known, dtype or ir.DataType.FLOAT):
            return name
    return f"swish({alpha:g})"


def _through_layout(value: ir.Value | None) -> ir.Value | None:
    """Step back over nodes that move data without computing."""
    node = _producer(value)
    while node is not None and _is(node, *_LAYOUT):
        value = _input(node)
        node = _producer(value)
    return value


def _is(node: ir.Node, *operators: str) -> bool:
    return node.op_type in operators and node.domain in _DOMAINS


def _input(node: ir.Node, index: int = 0) -> ir.Value | None:
    """Return an input, or None where it is left out or the node has fewer."""
    return node.inputs[index] if index < len(node.inputs) else None


def _either_way(node: ir.Node) -> tuple[tuple[ir.Value | None, ir.Value | None], ...]:
    """Return the two operands of a node in both orders."""
    return (_input(node), _input(node, 1)), (_input(node, 1), _input(node))


def _producer(value: ir.Value | None) -> ir.Node | None:
    return None if value is None else value.producer()


def _last_dim(value: ir.Value | None) -> int | None:
    if value is None or value.shape is None or not len(value.shape):
        return None
    last = value.shape[-1]
    return last if isinstance(last, int) else None
