"""Split hidden layers: a hidden layer computed a quarter at a time, so that each part stays in cache.

``act(x W1 + b1) W2 + b2`` is ``b2`` plus the sum of ``act(x W1[:, p] + b1[p]) W2[p]`` over parts ``p`` of the units.
With 512 rows, a hidden layer of 3072 units takes 6 MiB, and is written and read several times between the products. A
quarter of it fits into a second-level cache of 2 MiB. The second product of each part is a ``Gemm`` that adds the sum
of the parts before it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import geometric_mean

import numpy as np
import onnx_ir as ir

from ffn_export.core.activations import TABLE
from ffn_export.core.types import Array
from ffn_export.fusion import constants, linear, rows, sites
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.costs import Table
from ffn_export.fusion.engine import Log
from ffn_export.fusion.forms.by_rows.copy import again, copied, hand_on
from ffn_export.fusion.forms.by_rows.rewrite import Compute, rewrite
from ffn_export.fusion.forms.by_rows.row_function import is_moved, is_of_shapes
from ffn_export.fusion.forms.form import Form
from ffn_export.fusion.forms.padded_widths.growing_constants import Place, Plan, hidden_layer
from ffn_export.fusion.forms.padded_widths.units import UNITS, Padding
from ffn_export.fusion.functions.site_reading import Reading
from ffn_export.fusion.views import float_of, input_at, is_standard, rank

NAME = "split-hidden-layers"
PARTS = 4
# Fewest units of a hidden layer that is split. Each part costs further kernel calls, which show at few tokens, and more
# so in a narrow hidden layer.
WIDE = 2048
# Activations of the feed-forwards that are measured with a whole and with a split hidden layer.
MEASURED = tuple(name for name, each in TABLE.items() if each.measured_split)
# Smallest mean gain that counts: the cost of a whole feed-forward varies by less than that of a kernel.
_LEAD = 0.03


def apply(model: ir.Model, log: Log, excluded: Collection[str]) -> dict[str, str]:
    """Split the wide hidden layers of a model."""

    def plan(site: sites.FoundSite, reading: Reading) -> Compute | str:
        found = read(site, reading)
        return found if isinstance(found, str) else partial(write, reading=reading, layer=found)

    return rewrite(model, log, excluded, NAME, plan, is_wide)


def default(costs: Table | None) -> bool:
    """Whether split hidden layers take 3 % less time, on average over the measured activations."""
    known = {} if costs is None else costs.ns_per_element
    names = [f"FeedForward:{name}" for name in MEASURED if f"FeedForward:{name}:split" in known]
    ratios = [1 + known[f"{name}:split"] / known[name] for name in names if name in known]
    return bool(ratios) and geometric_mean(ratios) < 1 - _LEAD


def is_wide(site: sites.FoundSite) -> bool:
    """Whether a hidden layer is wide enough for its parts, and in float32, in which they were measured."""
    return (site.d_ff or 0) >= WIDE and site.nodes[-1].outputs[0].dtype == ir.DataType.FLOAT


@dataclass(frozen=True)
class SplitLayer:
    """A feed-forward whose hidden layer can be split.

    Attributes:
        plan: Axes of the constants along which the units lie.
        linears: Linear layers with a bias, by their last node.
        second: Second product.
        after: Nodes after the second product, which run once.
        bounds: First unit of each part, and the number of units.
    """

    plan: Plan
    linears: Mapping[ir.Node, linear.Linear]
    second: ir.Node
    after: tuple[ir.Node, ...]
    bounds: tuple[int, ...]


def read(site: sites.FoundSite, reading: Reading) -> SplitLayer | str:
    """Read a feed-forward whose hidden layer can be split, or return why it cannot."""
    plan = hidden_layer(site)
    if isinstance(plan, str):
        return plan
    second = plan.products[-1]
    bounds = _bounds(site.d_ff or 0)
    if len(bounds) <= 2:
        return f"a hidden layer of {site.d_ff} units is too small"
    if second.op_type == "FusedGemm" or float_of(second, "beta", 1.0) != 1:
        return f"{second.op_type} {second.name!r} does not add as it is"
    if any(len(_users(place)) > 1 for place in plan.constants):
        return "a weight of it is read elsewhere too, and would be stored twice"
    linears = _biased_products(reading)
    inside = {node for each in linears.values() for node in (*each.moved, each.product)}
    wide = {value.producer() for value in plan.wide}
    before = reading.nodes[: reading.nodes.index(second)]
    for node in before:
        if node not in wide and node not in inside and not is_of_shapes(node) and not is_moved(node):
            return f"{node.op_type} {node.name!r} is of all units"
    after = tuple(node for node in reading.nodes[len(before) + 1 :] if not is_of_shapes(node))
    return SplitLayer(plan, linears, second, after, bounds)


def _biased_products(reading: Reading) -> Mapping[ir.Node, linear.Linear]:
    """Return the linear layers with a bias that can be one ``Gemm``, by their last node."""
    found = {}
    for node in reading.nodes:
        layer = linear.read(node.outputs[0], node.graph) if is_standard(node, "Add") else None
        if layer is None or layer.add is not node:
            continue
        inner = (*layer.moved, layer.product)
        if all(len(part.outputs[0].consumers()) == 1 and part in reading.nodes for part in inner):
            found[node] = layer
    return found


def _bounds(d_ff: int) -> tuple[int, ...]:
    """Divide the units into parts of whole cache lines; the last part is the rest."""
    width = -(-d_ff // (PARTS * UNITS)) * UNITS
    return (*range(0, d_ff, width), d_ff) if width else (0,)


def _users(place: Place) -> Sequence[ir.Node]:
    value = place[0].inputs[place[1]]
    assert value is not None
    if (rank(value) or 0) < 2:  # a row is small enough to be stored twice
        return []
    return [*value.consumers(), *([place[0]] if value.is_graph_output() else [])]


def write(op: Builder, x: ir.Value, *, reading: Reading, layer: SplitLayer) -> ir.Value:
    """Write the split feed-forward for rows, and return its rows, as :func:`.copy.write` does for a whole one."""
    second = next((each for each in layer.linears.values() if each.product is layer.second), None)
    total = input_at(layer.second, 2)
    if second is not None and second.bias is not None:
        total = rows.of(op, second.bias, [second.sizes[1]])
    parts = [_PartWriter(op, reading, layer, units).write(x) for units in pairwise(layer.bounds)]
    # The sums are written after all parts of the hidden layer: ONNX Runtime then computes one part after the other. If
    # each sum directly follows its part, it computes all parts first and keeps them.
    for hidden, weight in parts:
        total = _added(op, layer.second, hidden, weight, total)
    assert total is not None
    absorbed = (layer.second,) if second is None else second.nodes
    return copied(op, layer.after, {node.outputs[0]: total for node in absorbed}, reading.end)


def _added(op: Builder, second: ir.Node, hidden: ir.Value, weight: ir.Value, total: ir.Value | None) -> ir.Value:
    """Write the second product of a part, added to the sum of those before it."""
    attributes = {name: each.value for name, each in second.attributes.items()} if is_standard(second, "Gemm") else {}
    y = op.Gemm(hidden, weight, *([] if total is None else [total]), **attributes)
    hand_on(second, y)
    return y


@dataclass(frozen=True)
class _PartWriter:
    op: Builder
    reading: Reading
    layer: SplitLayer
    units: tuple[int, int]

    def write(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Write this part of the hidden layer; return it, and its part of the second product's weight."""
        values = {self.reading.inputs["x"]: x}
        linears = self.layer.linears
        absorbed = {node for each in linears.values() for node in (*each.moved, each.product)}
        for node in self.reading.nodes[: self.reading.nodes.index(self.layer.second)]:
            if is_of_shapes(node) or node in absorbed:
                continue
            given = [self._given(node, place, values) for place in range(len(node.inputs))]
            if is_moved(node):
                values[node.outputs[0]] = _known(given[0])
            elif node in linears:
                values[node.outputs[0]] = self._gemm(linears[node], values)
            elif node in self.layer.plan.splits:
                width = self.units[1] - self.units[0]
                halves = self.op.integers(width, width)
                parts = self.op.several("Split", 2, given[0], halves, axis=-1)
                values.update(zip(node.outputs, parts, strict=True))
            else:
                values.update(zip(node.outputs, again(self.op, node, given), strict=True))
        hidden, weight = (_known(self._given(self.layer.second, place, values)) for place in (0, 1))
        return hidden, weight

    def _gemm(self, each: linear.Linear, values: Mapping[ir.Value, ir.Value]) -> ir.Value:
        assert each.add is not None
        assert each.bias is not None
        place = next(place for place, value in enumerate(each.add.inputs) if value is each.bias)
        bias = self._given(each.add, place, values)
        # A packed product computes several halves side by side, even if its bias is one number for all.
        whole = self.layer.plan.wide[each.product.outputs[0]] * (self.units[1] - self.units[0])
        y = self.op.Gemm(
            self._given(each.product, 0, values),
            self._given(each.product, 1, values),
            rows.of(self.op, _known(bias), [whole]),
            **each.attributes,
        )
        hand_on(each.product, y)
        return y

    def _given(self, node: ir.Node, place: int, values: Mapping[ir.Value, ir.Value]) -> ir.Value | None:
        """Return an input of a node in this part: its units of a constant, or a value of this part."""
        value = node.inputs[place]
        along = self.layer.plan.constants.get((node, place))
        if value is None or along is None:
            return value if value is None else values.get(value, value)
        (units,) = along
        return self._part(value, units)

    def _part(self, value: ir.Value, units: Padding) -> ir.Value:
        """Write the units of a constant that belong to this part."""
        tensor = constants.tensor_of(value)
        assert tensor is not None
        sizes = list(tensor.shape.numpy())
        sizes[units.axis] = units.parts * (self.units[1] - self.units[0])
        return self.op.computed(partial(_of_units, tensor, units, self.units), tensor.dtype, sizes)


def _of_units(tensor: ir.TensorProtocol, along: Padding, units: tuple[int, int]) -> Array:
    """Return some units of a constant, from each of the parts that lie side by side along its axis."""
    whole = tensor.numpy()
    axis = along.axis % whole.ndim
    size, before = whole.shape[axis] // along.parts, (slice(None),) * axis
    views = [whole[(*before, slice(n * size + units[0], n * size + units[1]))] for n in range(along.parts)]
    return views[0] if len(views) == 1 else np.concatenate(views, axis=axis)


def _known(value: ir.Value | None) -> ir.Value:
    assert value is not None
    return value


SPLIT_HIDDEN_LAYERS = Form(NAME, "feed_forward", default, apply=apply, in_few_bits=False)
