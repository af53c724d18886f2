"""Find the constants of a feed-forward to pad, and the values that grow with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from ffn_export.fusion import constants, sites
from ffn_export.fusion.forms.padded_widths.units import Fill, Padding, is_aliased, paddings_of
from ffn_export.fusion.linear import is_turned
from ffn_export.fusion.region import ELEMENTWISE
from ffn_export.fusion.shapes import is_along_last, last_size
from ffn_export.fusion.views import input_at, ints_of, is_standard, rank

PAD_OPSET = 11  # Pad with its sizes as an input
_CARRIES = ("Cast", "Identity")

Place = tuple[ir.Node, int]  # an input of a node


@dataclass(frozen=True)
class Plan:
    """The padding of one feed-forward.

    Attributes:
        site: Feed-forward.
        constants: Place at which a node reads a constant that grows -> its paddings.
        wide: Value whose last axis grows -> number of parts side by side along it.
        inputs: Products whose input is padded.
        splits: ``Split`` nodes of a packed hidden layer.
    """

    site: sites.FoundSite
    constants: Mapping[Place, tuple[Padding, ...]]
    wide: Mapping[ir.Value, int]
    inputs: tuple[ir.Node, ...]
    splits: tuple[ir.Node, ...]

    @property
    def products(self) -> tuple[ir.Node, ...]:
        """The products whose weights grow."""
        return tuple(dict.fromkeys(node for node, _ in self.constants if node.op_type in sites.PRODUCTS))

    def with_inputs(self, inputs: Sequence[ir.Node]) -> Plan:
        """Return the plan with only these products' inputs padded."""
        kept = {
            place: tuple(each for each in paddings if each.fill != "zeros" or place[0] in inputs)
            for place, paddings in self.constants.items()
        }
        return replace(self, constants={k: v for k, v in kept.items() if v}, inputs=tuple(inputs))


def read(site: sites.FoundSite, opset: int) -> Plan | str | None:
    """Return the padding of a feed-forward, the reason why it cannot be padded, or None if no width needs it."""
    products = _products(site)
    # Half precision runs in other kernels, or as float32 after a Cast, which moves the rows.
    if not products or any(_weight(node).dtype != ir.DataType.FLOAT for node in products):
        return None
    firsts, second = products[:-1], products[-1]
    can_pad = [node for node in firsts if opset >= PAD_OPSET and (rank(input_at(node, 0)) or 0) >= 2]
    inputs = [node for node in can_pad if is_aliased(_sizes(node)[0])]
    widens = is_aliased(_sizes(second)[0])
    if not inputs and not widens:
        return None
    if not all(map(constants.is_constant, map(_weight, products))):
        return "its weights can be overridden or are computed"
    return _planned(site, inputs, widens=widens)


def read_back(site: sites.FoundSite) -> Plan | None:
    """Return the padding that a feed-forward has; None if it has none, or was changed since."""
    products = _products(site)
    if not any(paddings_of(_weight(node)) for node in products):
        return None
    inputs = [node for node in products[:-1] if _is_padded(node, "zeros")]
    plan = _planned(site, inputs, widens=_is_padded(products[-1], "halved"))
    return None if isinstance(plan, str) else plan


def hidden_layer(site: sites.FoundSite) -> Plan | str:
    """Return the axes along which the units of a hidden layer lie, as a plan, or why the units are not separate."""
    products = _products(site)
    if not products or any(_weight(node).dtype != ir.DataType.FLOAT for node in products):
        return "its weights are not in float32"
    if not all(map(constants.is_constant, map(_weight, products))):
        return "its weights can be overridden or are computed"
    if any(paddings_of(_weight(node)) for node in products):
        return "its widths are padded"
    return _planned(site, (), widens=True)


def together(plans: Iterable[Plan]) -> dict[Place, tuple[Padding, ...]]:
    """Return the paddings of each place. The second product of one feed-forward may be the first of the next."""
    asked: dict[Place, dict[Padding, None]] = {}
    for plan in plans:
        for place, paddings in plan.constants.items():
            asked.setdefault(place, {}).update(dict.fromkeys(paddings))
    return {place: tuple(sorted(each, key=lambda padding: padding.axis)) for place, each in asked.items()}


def _planned(site: sites.FoundSite, inputs: Sequence[ir.Node], *, widens: bool) -> Plan | str:
    products = _products(site)
    firsts, second = products[:-1], products[-1]
    hidden = _Hidden(firsts, second, _sizes(second)[0])
    if widens:
        reason = hidden.widen(second.inputs[0], 1) or hidden.lost()
        if reason is not None:
            return reason
        hidden.grows(second, 1, Padding(_axes(second)[0], "halved"))
    for node in inputs:
        hidden.grows(node, 1, Padding(_axes(node)[0], "zeros"))
    grown = {place: tuple(each) for place, each in hidden.constants.items()}
    return Plan(site, grown, hidden.wide, tuple(inputs), tuple(hidden.splits))


@dataclass
class _Hidden:
    """The hidden layer, read backwards from the second product."""

    firsts: Sequence[ir.Node]
    second: ir.Node
    d_ff: int
    constants: dict[Place, list[Padding]] = field(default_factory=dict)
    wide: dict[ir.Value, int] = field(default_factory=dict)
    splits: list[ir.Node] = field(default_factory=list)
    nodes: set[ir.Node] = field(default_factory=set)

    def grows(self, node: ir.Node, place: int, padding: Padding) -> None:
        self.constants.setdefault((node, place), []).append(padding)

    def widen(self, value: ir.Value | None, parts: int) -> str | None:
        """Mark a value of this many parts side by side, and its inputs, as growing; return why it cannot grow."""
        node = None if value is None else value.producer()
        if value is None or node is None:
            return "its hidden layer is an input"
        if value in self.wide:
            return None if self.wide[value] == parts else f"{value.name!r} is read whole and in parts"
        if value.shape is not None and (not len(value.shape) or last_size(value) == 1):
            return None  # one number for each token, which is broadcast
        if last_size(value) not in (None, parts * self.d_ff):
            return f"{value.name!r} is not as wide as the hidden layer"
        self.wide[value] = parts
        self.nodes.add(node)
        return self._widen_inputs(node, parts)

    def lost(self) -> str | None:
        """Return why a value must not grow: it is a graph output or read elsewhere."""
        for value in (output for node in self.nodes for output in node.outputs):
            if value.is_graph_output() or not {*self.nodes, self.second}.issuperset(value.consumers()):
                return f"{value.name!r} is read elsewhere too"
        return None

    def _widen_inputs(self, node: ir.Node, parts: int) -> str | None:
        if node in self.firsts:
            return self._widen_product(node, parts)
        if is_standard(node, "Split"):
            return self._widen_split(node, parts)
        if is_standard(node, *_CARRIES):
            return self.widen(input_at(node, 0), parts)
        if (node.domain, node.op_type) not in ELEMENTWISE:
            return f"{node.op_type} {node.name!r} moves the units of the hidden layer"
        reasons = (self._widen_operand(node, place, parts) for place in range(len(node.inputs)))
        return next((reason for reason in reasons if reason is not None), None)

    def _widen_product(self, node: ir.Node, parts: int) -> str | None:
        if _sizes(node)[1] != parts * self.d_ff:
            return f"{node.op_type} {node.name!r} is not as wide as the hidden layer"
        self.grows(node, 1, Padding(_axes(node)[1], "again", parts))
        bias = input_at(node, 2)
        return None if bias is None else self._widen_constant(node, 2, bias, parts)

    def _widen_split(self, node: ir.Node, parts: int) -> str | None:
        halves = constants.integers(input_at(node, 1)) if input_at(node, 1) is not None else ints_of(node, "split")
        is_even = halves in ((), (self.d_ff, self.d_ff)) and len(node.outputs) == 2
        if parts != 1 or not is_even or not is_along_last(node, node.outputs[0], 0):
            return f"Split {node.name!r} does not halve the hidden layer"
        self.splits.append(node)
        self.wide.update(dict.fromkeys(node.outputs, 1))
        return self.widen(input_at(node, 0), 2)

    def _widen_operand(self, node: ir.Node, place: int, parts: int) -> str | None:
        value = node.inputs[place]
        if value is None:
            return None
        if constants.is_fixed(value):
            return self._widen_constant(node, place, value, parts)
        return self.widen(value, parts)

    def _widen_constant(self, node: ir.Node, place: int, value: ir.Value, parts: int) -> str | None:
        if value.shape is None:
            return f"the shape of {value.name!r} is not known"
        if not len(value.shape) or value.shape[-1] == 1:
            return None
        if value.shape[-1] != parts * self.d_ff or not constants.is_constant(value):
            return f"{value.name!r} is not one constant for each unit of the hidden layer"
        self.grows(node, place, Padding(len(value.shape) - 1, "again", parts))
        return None


def _products(site: sites.FoundSite) -> list[ir.Node]:
    """Return the products, the second one last; none for a split hidden layer or quantised products.

    The kernel of quantised products packs the weights that it reads.
    """
    if site.parts > 1 or any(node.op_type == sites.QUANTIZED for node in site.nodes):
        return []
    return [node for node in site.nodes if node.op_type in sites.PRODUCTS]


def _is_padded(product: ir.Node, fill: Fill) -> bool:
    return any(each.fill == fill and each.axis == _axes(product)[0] for each in paddings_of(_weight(product)))


def _weight(product: ir.Node) -> ir.Value:
    weight = product.inputs[1]
    assert weight is not None
    return weight


def _axes(product: ir.Node) -> tuple[int, int]:
    """Return the axes of a product's weight for its input and its output."""
    return (1, 0) if is_turned(product) else (0, 1)


def _sizes(product: ir.Node) -> tuple[int, int]:
    """Return the current sizes of these axes: a padded size is not aliased."""
    shape = _weight(product).shape
    assert shape is not None
    d_in, d_out = (shape.numpy()[axis] for axis in _axes(product))
    return d_in, d_out
