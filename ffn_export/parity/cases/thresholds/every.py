"""Cases that hold every integer of an input, for graphs that may tell any of them apart.

A table of tokens is traced to its parameter, and comparisons show the integers that they tell apart. Other readers of
an input show nothing: a second table, a one-hot encoding, a division, a loop. Only the outputs tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ffn_export.core.drawing import draw_all, fit_sizes, numpy_dtype
from ffn_export.core.node_graphs import graphs_of
from ffn_export.core.tensor_spec import TensorSpec, merge_dims
from ffn_export.core.types import Array
from ffn_export.core.words import words
from ffn_export.fusion.views import input_at, rank
from ffn_export.parity.cases import masks
from ffn_export.parity.cases.sizes.work import Work

# Most products of the cases of one input, with the fixed cost of each case.
_AFFORDABLE = 20_000_000_000
_FEW = 16  # every draw of a sweep holds most of so few integers
_SIDE = 64  # size of each symbolic axis
# Operators whose integers are those of their input, or change with them in the same way everywhere.
_HAND_ON = words(
    "Add Cast Concat Expand Flatten Gather Identity Mod Mul Neg Pad Reshape Slice Split Squeeze Sub Tile Transpose "
    "Unsqueeze Where"
)
# Operators that read sizes alone, or are thresholds, or put integers in order.
_SHOWN = words(
    "And ArgMax ArgMin ConstantOfShape CumSum Equal Greater GreaterOrEqual Less LessOrEqual Max Min NonZero Not Or "
    "ReduceMax ReduceMin ReduceSum Shape Size TopK"
)


def may_hold(spec: TensorSpec) -> bool:
    """Whether an input has more integers than a few draws hold."""
    low, high = spec.value_range or (0, 1)
    return not spec.is_floating and not spec.is_mask and high - low > _FEW


def reader(model: ir.Model, name: str) -> ir.Node | None:
    """Return a node that may tell integers of an input apart without a threshold, or None.

    The graph is without functions and branches.
    """
    reached = {value for value in model.graph.inputs if value.name == name}
    tables: set[ir.Value] = set()
    for node in model.graph:
        read = [place for place, value in enumerate(node.inputs) if value in reached]
        if not read and not reached.isdisjoint(_read_within(node)):
            return node
        if not read or node.domain == "com.microsoft":  # its embeddings are tables
            continue
        if node.op_type == "Gather" and read == [1] and (table := input_at(node, 0)) is not None:
            if rank(table) == 1 and not _is_floating(table):
                reached.update(node.outputs)
                continue
            tables.add(table)
            if len(tables) > 1 or not _is_floating(table):
                return node
        elif node.domain == "" and node.op_type in _HAND_ON:
            reached.update(output for output in node.outputs if not _is_float(output, node))
        elif node.domain != "" or node.op_type not in _SHOWN:
            return node
    return None


def every(
    model: ir.Model, spec: TensorSpec, specs: Sequence[TensorSpec], base: Mapping[str, int], seed: int
) -> list[Mapping[str, Array]]:
    """Return inputs that together hold every integer of an input's range, or none if they would take too long."""
    low, high = (int(end) for end in spec.value_range or (0, 1))
    own = {dim.name for dim in spec.symbolic.values()}
    sizes = fit_sizes(merge_dims(specs).values(), {**base, **dict.fromkeys(own, _SIDE)})
    shape = spec.shape(sizes)
    room, count = math.prod(shape), high - low + 1
    if not room or math.ceil(count / room) * Work.of(model).of_case(specs, sizes) > _AFFORDABLE:
        return []
    return [*_chunks(spec, specs, sizes, range(low, high + 1, room), seed)]


def _chunks(
    spec: TensorSpec, specs: Sequence[TensorSpec], sizes: Mapping[str, int], starts: range, seed: int
) -> Iterator[Mapping[str, Array]]:
    others = masks.all_seen(specs, draw_all(specs, sizes, seed))
    for start in starts:
        numbers = np.arange(start, min(start + starts.step, starts.stop))
        array = np.resize(numbers, spec.shape(sizes)).astype(numpy_dtype(spec.dtype))
        yield {**others, spec.name: array}


def _read_within(node: ir.Node) -> Iterator[ir.Value]:
    for body in graphs_of(node):
        yield from (value for inner in body.all_nodes() for value in inner.inputs if value)


def _is_float(output: ir.Value, node: ir.Node) -> bool:
    to = ir.DataType(node.attributes.get_int("to", 0))
    return _is_floating(output) or to.is_floating_point()


def _is_floating(value: ir.Value) -> bool:
    dtype = value.dtype or (None if value.const_value is None else value.const_value.dtype)
    return dtype is not None and dtype.is_floating_point()
