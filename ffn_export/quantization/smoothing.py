"""Smoothing: moves the spread of an input's channels into the weights (Xiao et al. 2022, "SmoothQuant").

Each channel of an input is divided by a factor, and the row of the matrix that reads it is multiplied by the factor.
The division goes into the nodes before the input if it can; the product stays the same in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion import constants, sites
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.views import input_at, is_one_of, is_standard

# Shares of the spread that move into the weights: the one with the least error on the samples is taken.
ALPHAS = (0.5, 0.6, 0.7, 0.8)
_SMALLEST = 1e-5
_LEAST = 0.5  # of the median: a channel that was small on a few rows may be larger on others
FEWEST = 32  # rows: fewer tell little of the channels
MANY = 1024  # rows: fewer tell little of the extremes of the channels
IN_NORM, IN_PRODUCT, OF_ITS_OWN = "in the norm before", "in the product before", "by a Mul of its own"


def factors(largest: Array, weights: Sequence[Array], alpha: float) -> Array:
    """Return the factor of each channel, with a geometric mean of 1.

    Args:
        largest: Largest magnitude of each channel.
        weights: The ``[d_in, d_out]`` matrices that read the input.
        alpha: Share of the spread that moves into the weights.
    """
    seen = largest[largest > 0]  # behind a Relu, most channels may be 0 on the samples, and are not on other inputs
    largest = np.maximum(largest, _LEAST * np.median(seen) if len(seen) else 0.0)
    rows = np.max([np.abs(matrix).max(axis=1) for matrix in weights], axis=0)
    spread = np.maximum(largest, _SMALLEST) ** alpha / np.maximum(rows, _SMALLEST) ** (1 - alpha)
    smoothed: Array = (spread / np.exp(np.log(spread).mean())).astype(np.float32)
    return smoothed


@dataclass(frozen=True, eq=False)
class Channels:
    """Statistics of each channel of a value, which is an index of its last axis.

    Attributes:
        lowest: Lowest number.
        highest: Highest number.
        squares: Mean square.
        means: Mean.
        rows: Some of the rows, ``[rows, channels]``.
        count: Number of all rows.
    """

    lowest: Array
    highest: Array
    squares: Array
    means: Array
    rows: Array
    count: int

    @property
    def largest(self) -> Array:
        """Largest magnitude."""
        largest: Array = np.maximum(self.highest, -self.lowest)
        return largest

    def joined(self, other: Channels) -> Channels:
        """Return the extremes and rows of both, and the means and the count of the first."""
        return Channels(
            np.minimum(self.lowest, other.lowest),
            np.maximum(self.highest, other.highest),
            self.squares,
            self.means,
            np.concatenate([self.rows, other.rows]),
            self.count,
        )


class Divider:
    """Divides the channels of values by factors.

    Args:
        quantized: Products whose weights will be quantised. Only theirs can take a division in.
    """

    def __init__(self, quantized: Collection[ir.Node]) -> None:
        self._quantized = quantized
        self.columns: dict[ir.Node, Array] = {}  # product -> factors that its columns are divided by

    def divide(
        self, op: Builder, x: ir.Value, by: Array, users: Collection[ir.Node], *, alone_is_worth: bool
    ) -> tuple[ir.Value, str] | None:
        """Divide a value that the users read. Return the divided value and where the division is, or None.

        Args:
            op: Builder of the constants, and of a ``Mul`` if nothing before the value can take the division in.
            x: The value.
            by: The factors.
            users: The nodes that will read the divided value.
            alone_is_worth: Whether to write a ``Mul`` if nothing before the value can take the division in.
        """
        node = x.producer()
        is_theirs = not x.is_graph_output() and set(x.consumers()) <= set(users)
        if node is not None and is_theirs and _are_in_one_graph(node, *users):
            if self._in_scale(op, node, by):
                return x, IN_NORM
            if self._in_product(op, node, by):
                return x, IN_PRODUCT
        return (op.Mul(x, op.constant(np.float32(1) / by)), OF_ITS_OWN) if alone_is_worth else None

    def _in_scale(self, op: Builder, node: ir.Node, by: Array) -> bool:
        """Divide the scale and bias of a norm, or the constant operand of a ``Mul``."""
        if is_one_of(node, *sites.NORMS):
            places = [1, *([2] if input_at(node, 2) is not None else [])]
            if len(node.outputs) > 1 and any(output.uses() for output in node.outputs[1:]):
                return False
        elif is_standard(node, "Mul"):
            places = [place for place, value in enumerate(node.inputs) if constants.is_constant(value)][:1]
        else:
            return False
        arrays = [_channels(node.inputs[place], by) for place in places]
        if not arrays or any(array is None for array in arrays):
            return False
        for place, array in zip(places, arrays, strict=True):
            assert array is not None
            _replace(node, place, op.constant((array / by).astype(np.float32)))
        return True

    def _in_product(self, op: Builder, node: ir.Node, by: Array) -> bool:
        """Divide the columns and the bias of a product that reaches the value through a gate's ``Mul`` or a Relu."""
        if is_standard(node, "Mul"):
            return any(self._into(op, value, by) for value in node.inputs if value is not None)
        return is_standard(node, "Relu") and self._into(op, node.inputs[0], by)

    def _into(self, op: Builder, value: ir.Value | None, by: Array) -> bool:
        node = None if value is None else value.producer()
        if value is None or node is None or value.is_graph_output() or len(value.uses()) != 1:
            return False
        if not _are_in_one_graph(node, *value.consumers()):
            return False
        if node in self._quantized and node not in self.columns:
            bias = input_at(node, 2)
            array = _channels(bias, by)
            if bias is not None and array is None:
                return False
            if array is not None:
                _replace(node, 2, op.constant((array / by).astype(np.float32)))
            self.columns[node] = by
            return True
        if is_standard(node, "Relu"):
            return self._into(op, node.inputs[0], by)
        if is_standard(node, "Add"):
            for place, other in ((0, 1), (1, 0)):
                array = _channels(node.inputs[place], by)
                if array is not None and self._into(op, node.inputs[other], by):
                    _replace(node, place, op.constant((array / by).astype(np.float32)))
                    return True
        return False


def _are_in_one_graph(*nodes: ir.Node) -> bool:
    """Whether nodes can read the same constants: a branch reads values from outside, but its constants stay inside."""
    return all(node.graph is nodes[0].graph for node in nodes)


def _channels(value: ir.Value | None, by: Array) -> Array | None:
    """Return a constant of one number for each channel."""
    if not constants.is_constant(value):
        return None
    array = constants.evaluate(value)
    return array if array is not None and array.shape == by.shape else None


def _replace(node: ir.Node, place: int, new: ir.Value) -> None:
    """Replace a constant, and remove it from the graph if nothing else reads it."""
    old = node.inputs[place]
    node.replace_input_with(place, new)
    if old is not None and old.is_initializer() and not old.uses() and not old.is_graph_output():
        graph = old.graph
        assert isinstance(graph, ir.Graph)
        del graph.initializers[str(old.name)]
