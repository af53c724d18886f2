"""Assign weights, biases and the activation of a feed-forward site to their roles in the outlined node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from ffn_export.core.activations import TABLE
from ffn_export.fusion import constants
from ffn_export.fusion.linear import is_plain_product, is_turned
from ffn_export.fusion.region import ELEMENTWISE, HALVES, LAYOUT
from ffn_export.fusion.shapes import last_size
from ffn_export.fusion.sites import PRODUCTS, FoundSite
from ffn_export.fusion.views import input_at, is_standard, producer, rank

Attribute = int | float | str

# Value of the attribute ``activation`` -> default of its alpha, None for no alpha; ``swish`` has no default.
_ALPHA = {name: each.alpha for name, each in TABLE.items() if each.outlined}
_SLOPED = {key for each in TABLE.values() if each.alpha is not None for key in each.keys}
_WITH_BIAS = ("BiasGelu", "FastGelu")


@dataclass(frozen=True)
class Roles:
    """The values of a site by their role.

    Attributes:
        firsts: Products that read the input, the activated one first.
        trailing: Nodes after the second product that belong to the site: its bias, and layout before that.
        end: Result.
        values: ``w1``, ``b1``, ``w2``, ``b2``, ``w3``, ``b3`` -> the value, for those that exist.
        attributes: Attributes of the node.
        is_known: Whether values and attributes define the function.
    """

    firsts: tuple[ir.Node, ...]
    trailing: tuple[ir.Node, ...]
    end: ir.Value
    values: Mapping[str, ir.Value]
    attributes: Mapping[str, Attribute]
    is_known: bool


@dataclass
class _Operand:
    """One factor of a gated product.

    Attributes:
        firsts: First products that it is computed from.
        computing: Computing nodes after them, without biases.
        parts: Node that takes a part of a value -> index of the half, or None for any other part.
    """

    firsts: dict[ir.Node, None] = field(default_factory=dict)
    computing: dict[ir.Node, None] = field(default_factory=dict)
    parts: dict[ir.Node, int | None] = field(default_factory=dict)

    @property
    def half(self) -> int:
        """Index of the half that it is computed from; -1 if it takes no part, another one, or parts of parts."""
        half = next(iter(self.parts.values()), None)
        return half if half is not None and len(self.parts) == 1 else -1


class _Reader:
    def __init__(self, site: FoundSite) -> None:
        self.site = site
        self.second = next(n for n in reversed(site.nodes) if n.op_type in PRODUCTS)
        self.products = [n for n in site.nodes if n.op_type in PRODUCTS and n is not self.second]
        self.biases: dict[ir.Node, ir.Value] = {}
        self.placed: set[ir.Node] = set()
        for product in self.products:
            self._find_bias(product)

    def _find_bias(self, product: ir.Node) -> None:
        """Find the row that is added to a first product, by the product, by an Add, or by the activation."""
        own = input_at(product, 2)
        if own is not None:
            self.biases[product] = own
        if own is not None or product.op_type == "FusedGemm":  # its activation comes before anything that is added
            return
        user = _next(product.outputs[0])
        while user is not None and is_standard(user, *LAYOUT):
            user = _next(user.outputs[0])
        if user is None or user not in self.site.between:
            return
        if is_standard(user, "Add"):
            fixed = [value for value in user.inputs if value is not None and _is_row(value)]
            if len(fixed) == 1:
                self.biases[product] = fixed[0]
                self.placed.add(user)
        elif user.op_type in _WITH_BIAS and user.domain != "" and (row := input_at(user, 1)) is not None:
            self.biases[product] = row

    def operand(self, value: ir.Value | None) -> _Operand:
        found = _Operand()
        waiting = [value]
        seen: set[ir.Node] = set()
        while waiting:
            each = waiting.pop()
            node = producer(each, within=self.second.graph)
            if each is None or node is None or node in seen:
                continue
            seen.add(node)
            if node in self.products:
                found.firsts[node] = None
                continue
            if is_standard(node, *HALVES):
                found.parts[node] = _half(node, each)
            elif (node.domain, node.op_type) in ELEMENTWISE and node not in self.placed:
                found.computing[node] = None
            waiting += node.inputs[:1] if is_standard(node, *HALVES, *LAYOUT) else node.inputs
        return found

    def before_second(self) -> set[ir.Node]:
        """Return the nodes between the products."""
        waiting, seen = [input_at(self.second, 0)], set[ir.Node]()
        while waiting:
            node = producer(waiting.pop())
            if node is None or node in seen or node in self.products:
                continue
            seen.add(node)
            if is_standard(node, *LAYOUT, *HALVES):
                waiting += node.inputs[:1]
            elif node in self.site.between:
                waiting += node.inputs
        return seen

    def gating_product(self) -> ir.Node | None:
        """Return the node that multiplies the two projections: the last ``Mul`` of two computed values."""
        factors = (n for n in reversed(self.site.between) if is_standard(n, "Mul"))
        return next((n for n in factors if not any(map(constants.is_fixed, n.inputs))), None)


def roles(site: FoundSite) -> Roles:
    """Read the roles off a feed-forward."""
    reader = _Reader(site)
    firsts, packed, known = _order(reader)
    trailing, end, last_bias = _trailing(reader)
    values: dict[str, ir.Value] = {}
    for product, weight, bias in zip(
        (*firsts[:1], reader.second, *firsts[1:]), ("w1", "w2", "w3"), ("b1", "b2", "b3"), strict=False
    ):
        assert product.inputs[1] is not None
        values[weight] = product.inputs[1]
        row = last_bias if product is reader.second else reader.biases.get(product)
        if row is not None:
            values[bias] = row
    rows = {node for node in site.between if is_standard(node, "Add") and any(map(constants.is_fixed, node.inputs))}
    products = (*firsts, reader.second)
    turned = set(map(is_turned, products))
    known = (
        known
        and rows <= reader.placed
        and all(map(is_plain_product, products))
        and len(turned) == 1
        and _fit(values, turned == {True})
    )
    casts = (node for node in reader.before_second() if is_standard(node, "Cast"))
    known = known and all(ir.DataType(node.attributes.get_int("to", 1)).is_floating_point() for node in casts)
    attributes, named = _activation(site)
    if packed:
        attributes["packed"] = packed
    if turned == {True}:
        attributes["transposed"] = 1
    return Roles(firsts, trailing, end, values, attributes, known and named)


def _fit(values: Mapping[str, ir.Value], turned: bool) -> bool:
    """Whether each bias is a row of the length of its matrix."""
    for weight, bias in (("w1", "b1"), ("w2", "b2"), ("w3", "b3")):
        if bias in values:
            sizes = values[weight].shape
            if sizes is None or values[bias].shape != ir.Shape([sizes[0 if turned else 1]]):
                return False
    return True


def _order(reader: _Reader) -> tuple[tuple[ir.Node, ...], int, bool]:
    """Return the first products, the activated one first; its half of a packed product; whether this is certain."""
    products = tuple(reader.products)
    # The nodes that take a part of a value, or turn its order.
    parts = {node for node in reader.before_second() if is_standard(node, *HALVES)}
    if not reader.site.gated:
        return products, 0, len(products) == 1 and not parts
    gating = reader.gating_product()
    operands = [reader.operand(value) for value in gating.inputs] if gating is not None else []
    if len(operands) != 2:
        return products, 0, False
    activated = [bool(each.computing) or any(n.op_type == "FusedGemm" for n in each.firsts) for each in operands]
    if sorted(activated) != [False, True] or any(len(each.firsts) != 1 for each in operands):
        return products, 0, False
    first, other = operands if activated[0] else operands[::-1]
    one, two = next(iter(first.firsts)), next(iter(other.firsts))
    if one is not two:
        return (one, two), 0, not parts and len(products) == 2
    packed = {(0, 1): 1, (1, 0): 2}.get((first.half, other.half))
    return (one,), packed or 0, packed is not None and parts == {*first.parts, *other.parts}


def _half(node: ir.Node, value: ir.Value) -> int | None:
    """Return which half of the last axis a value is; None for any other part."""
    source = input_at(node, 0)
    width, part = last_size(source), last_size(value)
    if width is None or part is None or 2 * part != width:
        return None
    if node.op_type == "Split":
        return value.index() if len(node.outputs) == 2 else None
    if constants.integers(input_at(node, 4)) not in (None, (1,)):
        return None
    starts = constants.integers(input_at(node, 1))
    return None if starts is None or len(starts) != 1 else {0: 0, part: 1, -part: 1}.get(starts[0])


def _trailing(reader: _Reader) -> tuple[tuple[ir.Node, ...], ir.Value, ir.Value | None]:
    """Return the nodes after the second product up to its bias, the result, and the bias."""
    end = reader.second.outputs[0]
    own = input_at(reader.second, 2)
    if own is not None:
        return (), end, own
    nodes: list[ir.Node] = []
    value = end
    while (user := _next(value)) is not None and len(nodes) < 4:
        nodes.append(user)
        if is_standard(user, "Add"):
            rows = [each for each in user.inputs if each is not None and _is_row(each)]
            return (tuple(nodes), user.outputs[0], rows[0]) if len(rows) == 1 else ((), end, None)
        if not is_standard(user, *LAYOUT):
            break
        value = user.outputs[0]
    return (), end, None


def _activation(site: FoundSite) -> tuple[dict[str, Attribute], bool]:
    name = (site.activation or "").partition("(")[0]
    if name in _ALPHA and _ALPHA[name] is None:
        return {"activation": name}, True
    alpha = _alpha(site) if name in (*_ALPHA, "swish") else None
    alpha = _ALPHA.get(name) if alpha is None else alpha
    return ({"activation": "other"}, False) if alpha is None else ({"activation": name, "alpha": alpha}, True)


def _alpha(site: FoundSite) -> float | None:
    for node in site.nodes:
        if node.op_type == "FusedGemm" or (node.domain, node.op_type) in _SLOPED:
            given = node.attributes.get("activation_alpha" if node.op_type == "FusedGemm" else "alpha")
            return None if given is None else given.as_float()
    numbers = [constants.number(v) for n in site.between if is_standard(n, "Mul") for v in n.inputs]
    return next((number for number in numbers if number is not None), None)


def _next(value: ir.Value) -> ir.Node | None:
    """Return the only node that reads a value; None if there are several, or it is a graph output."""
    users = value.consumers()
    return users[0] if len(users) == 1 and not value.is_graph_output() else None


def _is_row(value: ir.Value) -> bool:
    return constants.is_fixed(value) and rank(value) == 1
