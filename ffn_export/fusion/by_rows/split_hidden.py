"""Write a feed-forward with a split hidden layer, each part of which stays in cache.

``act(x W1 + b1) W2 + b2`` is ``b2`` plus the sum of ``act(x W1[:, p] + b1[p]) W2[p]`` over parts ``p`` of the units.
With 512 rows, a hidden layer of 3072 units takes 6 MiB, and is written and read several times between the products. A
quarter of it fits into a second-level cache of 2 MiB. The second product of each part is a ``Gemm`` that adds the sum
of the parts before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np
import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.core.types import Array
from ffn_export.fusion import linear, rows, sites
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.by_rows.row_function import is_moved, is_of_shapes
from ffn_export.fusion.by_rows.write import again, biased_products, hand_on
from ffn_export.fusion.outline_site import Reading
from ffn_export.fusion.padded_widths.growing_constants import Place, Plan, hidden_layer
from ffn_export.fusion.padded_widths.units import UNITS, Padding
from ffn_export.fusion.shapes import last_size
from ffn_export.fusion.views import float_of, input_at, is_standard, readers

PIECES = 4


@dataclass(frozen=True)
class Pieces:
    """A feed-forward whose hidden layer can be split.

    Attributes:
        plan: Axes of the constants along which the units lie.
        layers: Linear layers with a bias, by their last node.
        second: Second product.
        after: Nodes after the second product, which run once.
        bounds: First unit of each part, and the number of units.
        parts: Parts of constants that were written. The loop and the branch for short inputs share them.
    """

    plan: Plan
    layers: Mapping[ir.Node, linear.Linear]
    second: ir.Node
    after: tuple[ir.Node, ...]
    bounds: tuple[int, ...]
    parts: dict[tuple[ir.Value, tuple[int, int]], ir.Value] = field(default_factory=dict)


def read(site: sites.FoundSite, reading: Reading) -> Pieces | str:
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
    layers = biased_products(reading)
    inside = {node for layer in layers.values() for node in (*layer.moved, layer.product)}
    wide = {value.producer() for value in plan.wide}
    before = reading.nodes[: reading.nodes.index(second)]
    for node in before:
        if node not in wide and node not in inside and not is_of_shapes(node) and not is_moved(node):
            return f"{node.op_type} {node.name!r} is of all units"
    after = tuple(node for node in reading.nodes[len(before) + 1 :] if not is_of_shapes(node))
    return Pieces(plan, layers, second, after, bounds)


def _bounds(d_ff: int) -> tuple[int, ...]:
    """Divide the units into parts of whole cache lines; the last part is the rest."""
    width = -(-d_ff // (PIECES * UNITS)) * UNITS
    return (*range(0, d_ff, width), d_ff) if width else (0,)


def _users(place: Place) -> Sequence[ir.Node]:
    value = place[0].inputs[place[1]]
    assert value is not None
    # A row is small enough to be stored twice.
    matrix = value.shape is not None and len(value.shape) > 1
    return [*readers(value), *([place[0]] if value.is_graph_output() else [])] if matrix else []


def write(op: Builder, x: ir.Value, *, reading: Reading, pieces: Pieces) -> ir.Value:
    """Write the split feed-forward, for rows.

    Args:
        op: Builder that takes the nodes; its constants belong to the main graph.
        x: Input as rows.
        reading: Feed-forward.
        pieces: How to split its hidden layer.

    Returns:
        The result as rows.
    """
    second = next((layer for layer in pieces.layers.values() if layer.product is pieces.second), None)
    total = input_at(pieces.second, 2)
    if second is not None and second.bias is not None:
        total = rows.of(op, second.bias, [second.sizes[1]])
    parts = [_Piece(op, reading, pieces, units).write(x) for units in pairwise(pieces.bounds)]
    # The sums are written after all parts of the hidden layer: ONNX Runtime then computes one part after the other. If
    # each sum directly follows its part, it computes all parts first and keeps them.
    for hidden, weight in parts:
        total = _added(op, pieces.second, hidden, weight, total)
    assert total is not None
    values = {pieces.second.outputs[0]: total}
    for node in pieces.after:
        absorbed = second is not None and node in (second.add, *second.moved)
        given = [value if value is None else values.get(value, value) for value in node.inputs]
        if absorbed or is_moved(node):
            values[node.outputs[0]] = total if absorbed else _known(given[0])
        else:
            values.update(zip(node.outputs, again(op, node, given), strict=True))
    y = values[reading.end]
    y.type, y.shape = reading.end.type, ir.Shape([None, last_size(reading.end)])
    return y


def _added(op: Builder, second: ir.Node, hidden: ir.Value, weight: ir.Value, total: ir.Value | None) -> ir.Value:
    """Write the second product of a part, added to the sum of those before it."""
    attributes = {name: each.value for name, each in second.attributes.items()} if is_standard(second, "Gemm") else {}
    y: ir.Value = op.Gemm(hidden, weight, *([] if total is None else [total]), **attributes)
    hand_on(second, y)
    return y


@dataclass(frozen=True)
class _Piece:
    """Writes one part of a split hidden layer."""

    op: Builder
    reading: Reading
    pieces: Pieces
    units: tuple[int, int]

    def write(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Write this part of the hidden layer; return it, and its part of the second product's weight."""
        values = {self.reading.inputs["x"]: x}
        layers = self.pieces.layers
        absorbed = {node for layer in layers.values() for node in (*layer.moved, layer.product)}
        for node in self.reading.nodes[: self.reading.nodes.index(self.pieces.second)]:
            if is_of_shapes(node) or node in absorbed:
                continue
            given = [self._given(node, place, values) for place in range(len(node.inputs))]
            if is_moved(node):
                values[node.outputs[0]] = _known(given[0])
            elif node in layers:
                values[node.outputs[0]] = self._gemm(layers[node], values)
            elif node in self.pieces.plan.splits:
                width = self.units[1] - self.units[0]
                halves = self.op.constant(np.asarray([width, width], np.int64))
                values.update(zip(node.outputs, self.op.Split(given[0], halves, axis=-1, _outputs=2), strict=True))
            else:
                values.update(zip(node.outputs, again(self.op, node, given), strict=True))
        hidden, weight = (_known(self._given(self.pieces.second, place, values)) for place in (0, 1))
        return hidden, weight

    def _gemm(self, layer: linear.Linear, values: Mapping[ir.Value, ir.Value]) -> ir.Value:
        assert layer.add is not None
        assert layer.bias is not None
        place = next(place for place, value in enumerate(layer.add.inputs) if value is layer.bias)
        bias = self._given(layer.add, place, values)
        # A packed product computes several halves side by side, even if its bias is one number for all.
        whole = self.pieces.plan.wide[layer.product.outputs[0]] * (self.units[1] - self.units[0])
        y: ir.Value = self.op.Gemm(
            self._given(layer.product, 0, values),
            self._given(layer.product, 1, values),
            rows.of(self.op, _known(bias), [whole]),
            **layer.attributes,
        )
        hand_on(layer.product, y)
        return y

    def _given(self, node: ir.Node, place: int, values: Mapping[ir.Value, ir.Value]) -> ir.Value | None:
        """Return an input of a node in this part: its units of a constant, or a value of this part."""
        value = node.inputs[place]
        along = self.pieces.plan.constants.get((node, place))
        if value is None or along is None:
            return value if value is None else values.get(value, value)
        part = self.pieces.parts.get((value, self.units))
        if part is None:
            (units,) = along
            part = self.pieces.parts[value, self.units] = self._part(value, units)
        return part

    def _part(self, value: ir.Value, units: Padding) -> ir.Value:
        """Write the units of a constant that belong to this part."""
        tensor = constant_tensor(value)
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
