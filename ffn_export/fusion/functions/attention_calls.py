"""Read attention as calls of ``Attention``: a product, a scale, a mask, a softmax and a product.

    softmax(scale * Q K^T + bias) V

Covers: scale before or behind the first product, on one operand or both; sums of several masks; a mask chosen by
``Where``; heads split off by Reshape and Transpose, in any place; keys and values repeated for groups of heads; a row
that sees no key, which torch's export makes 0. Not covered: weights that anything else reads, a mask of another shape
than the scores, heads of values that have another size than those of keys, and more than two leading axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from ffn_export.fusion import constants, safety
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.functions.contract import ATTENTION, Call
from ffn_export.fusion.functions.heads import Heads, read_keys, read_rows, unscaled
from ffn_export.fusion.shapes import are_same_axes
from ffn_export.fusion.views import input_at, inputs_of, int_of, ints_of, is_standard, producer, readers

_FLOAT = ir.DataType.FLOAT
# A hidden score: added to any other, it stays the same number.
_HIDDEN = -1e30
_AXES_AS_INPUT = 18  # of ReduceMax


@dataclass(frozen=True)
class _Scores:
    """Scores before the softmax: ``scale * product + masks``."""

    product: ir.Node
    scale: float
    masks: tuple[ir.Value | _Chosen, ...]
    nodes: tuple[ir.Node, ...]


@dataclass(frozen=True)
class _Chosen:
    """A mask that a ``Where`` applies: the condition, the number that hides, and whether True hides."""

    condition: ir.Value
    number: ir.Value
    hides: bool

    @property
    def shape(self) -> ir.Shape | None:
        return self.condition.shape


_Mask = ir.Value | _Chosen


@dataclass(frozen=True)
class Found:
    """An attention that can be one node.

    Attributes:
        query: Queries, keys and values: where they are read, and how their heads lie.
        key: See above.
        value: See above.
        masks: What is added to the scores.
        scale: Factor of the scores.
        is_causal: Whether a query sees no later key.
        zeroes: Whether a row that sees no key is 0.
        end: Result, by heads or in rows.
        is_merged: Whether the result is in rows.
        nodes: Nodes that go.
    """

    query: Heads
    key: Heads
    value: Heads
    masks: tuple[_Mask, ...]
    scale: float
    is_causal: bool
    zeroes: bool
    end: ir.Value
    is_merged: bool
    nodes: tuple[ir.Node, ...]


def find(model: ir.Model, graph: ir.Graph) -> Iterator[Found]:
    """Yield the attentions of a graph, in graph order."""
    for node in list(graph):
        found = _read(node) if is_standard(node, "Softmax") else None
        if found is not None and safety.refusal(model, found.nodes, [found.end], None, 0) is None:
            yield found


def _read(softmax: ir.Node) -> Found | None:
    weights = softmax.outputs[0]
    if weights.shape is None or len(weights.shape) != 4 or int_of(softmax, "axis", -1) not in (-1, 3):
        return None
    scores = _scores(softmax.inputs[0])
    zeroed = _zeroed(softmax)
    mixing = _only_reader(zeroed[-1].outputs[0] if zeroed else weights)
    if scores is None or mixing is None or not is_standard(mixing, "MatMul"):
        return None
    if mixing.inputs[0] is not (zeroed[-1].outputs[0] if zeroed else weights):
        return None
    operands = _operands(scores.product, mixing, weights)
    if operands is None:
        return None
    query, key, value = operands
    masks, is_causal = _without_causal(scores.masks, query, key)
    if any(not _broadcasts(mask, weights) for mask in masks):
        return None
    # A row that sees no key is told by the mask, which then must be the only one and alike for all heads.
    if zeroed and masks and (is_causal or len(masks) > 1 or not _is_for_all_heads(masks[0])):
        return None
    merging = _merging(mixing, query)
    core = (*scores.nodes, scores.product, softmax, *zeroed, mixing, *merging)
    scale = scores.scale * query.scale * key.scale
    return Found(query, key, value, masks, scale, is_causal, bool(zeroed), core[-1].outputs[0], bool(merging), core)


def _operands(product: ir.Node, mixing: ir.Node, weights: ir.Value) -> tuple[Heads, Heads, Heads] | None:
    """Read queries, keys and values, if they fit together."""
    first, second = inputs_of(product)
    query, key = read_rows(first), read_keys(second)
    value = None if mixing.inputs[1] is None else read_rows(mixing.inputs[1], may_repeat=True)
    if query is None or key is None or value is None or not _fit(query, key, value, weights):
        return None
    are_floats = all(each.dtype == _FLOAT for each in (query.value, key.value, value.value, weights))
    # A factor of the values would have to go behind the call.
    can_scale = value.scale == 1 and math.isfinite(query.scale * key.scale)
    return (query, key, value) if are_floats and can_scale else None


def _fit(query: Heads, key: Heads, value: Heads, weights: ir.Value) -> bool:
    """Whether heads, their sizes and the leading axes are those of one attention."""
    batch, heads, queries, keys = weights.shape or ir.Shape([None] * 4)
    sizes = query.size == key.size == value.size
    groups = key.count == value.count and query.count % key.count == 0 and heads == query.count
    axes = are_same_axes([batch, queries], [query.batch, query.length]) and all(
        are_same_axes([batch, keys], [each.batch, each.length]) for each in (key, value)
    )
    return sizes and groups and axes


def _scores(value: ir.Value | None) -> _Scores | None:
    """Read scores back to their product."""
    node = None if value is None else value.producer()
    if node is None or value is None or value.shape is None or len(value.shape) != 4:
        return None
    if is_standard(node, "MatMul"):
        is_product = len(inputs_of(node)) == 2 and not any(map(constants.is_fixed, node.inputs))
        return _Scores(node, 1.0, (), ()) if is_product else None
    inner, factor = unscaled(value)
    if inner is not value:
        found = _scores(inner)
        # A factor of a masked score would be one of the mask too.
        if found is None or found.masks:
            return None
        return replace(found, scale=found.scale * factor, nodes=(*found.nodes, node))
    if is_standard(node, "Add"):
        for inner, mask in (inputs_of(node), inputs_of(node)[::-1]):
            found = _scores(inner)
            if found is not None and mask.dtype == _FLOAT:
                return replace(found, masks=(*found.masks, mask), nodes=(*found.nodes, node))
    if is_standard(node, "Where") and len(inputs_of(node)) == 3:
        condition, yes, no = inputs_of(node)
        for inner, number, hides in ((no, yes, True), (yes, no, False)):
            hidden = constants.number(number)
            found = _scores(inner) if hidden is not None and hidden <= _HIDDEN and number.dtype == _FLOAT else None
            if found is not None:
                chosen = _Chosen(condition, number, hides)
                return replace(found, masks=(*found.masks, chosen), nodes=(*found.nodes, node))
    return None


def _zeroed(softmax: ir.Node) -> tuple[ir.Node, ...]:
    """Return the nodes that make a row 0 that sees no key: ``Where(IsNaN(weights), 0, weights)``."""
    weights = softmax.outputs[0]
    is_nan = next((user for user in readers(weights) if is_standard(user, "IsNaN")), None)
    where = None if is_nan is None else _only_reader(is_nan.outputs[0])
    if is_nan is None or where is None or not is_standard(where, "Where") or len(inputs_of(where)) != 3:
        return ()
    condition, yes, no = inputs_of(where)
    fits = condition is is_nan.outputs[0] and constants.number(yes) == 0 and no is weights
    return (is_nan, where) if fits else ()


def _without_causal(masks: Sequence[_Mask], query: Heads, key: Heads) -> tuple[tuple[_Mask, ...], bool]:
    """Return the masks without a triangular one, if queries and keys are of one length."""
    triangular = [mask for mask in masks if isinstance(mask, ir.Value) and _is_triangular(mask)]
    if not triangular or not are_same_axes([query.length], [key.length]):
        return tuple(masks), False
    return tuple(mask for mask in masks if mask not in triangular), True


def _is_triangular(mask: ir.Value) -> bool:
    """Whether a mask hides every later key and nothing else: ``Where(Trilu(ones) == 0, lowest, 0)``."""
    where = producer(mask, "Where")
    equal = None if where is None else producer(where.inputs[0], "Equal")
    lower = None if equal is None else producer(equal.inputs[0], "Trilu")
    ones = None if lower is None else producer(lower.inputs[0], "Expand")
    if where is None or equal is None or lower is None or ones is None or mask.shape is None:
        return False
    numbers = [constants.number(each) for each in (*where.inputs[1:], equal.inputs[1], ones.inputs[0])]
    first, *others = numbers
    diagonal = input_at(lower, 1)
    return (
        first is not None
        and first <= _HIDDEN
        and others == [0, 0, 1]
        and int_of(lower, "upper", 1) == 0
        and (diagonal is None or constants.number(diagonal) == 0)
        and len(mask.shape) == 2
    )


def _broadcasts(mask: _Mask, scores: ir.Value) -> bool:
    """Whether each axis of a mask is proven to be 1 or that of the scores."""
    if mask.shape is None or scores.shape is None or len(mask.shape) > 4:
        return False
    behind = list(scores.shape)[4 - len(mask.shape) :]
    return all(size == 1 or are_same_axes([size], [full]) for size, full in zip(mask.shape, behind, strict=True))


def _is_for_all_heads(mask: _Mask) -> bool:
    return mask.shape is not None and (len(mask.shape) < 3 or list(mask.shape)[-3] == 1)


def _merging(mixing: ir.Node, query: Heads) -> tuple[ir.Node, ...]:
    """Return the nodes that bring the result into rows, as Transpose and Reshape."""
    turn = _only_reader(mixing.outputs[0])
    if turn is None or not is_standard(turn, "Transpose") or ints_of(turn, "perm") != (0, 2, 1, 3):
        return ()
    merge = _only_reader(turn.outputs[0])
    if merge is None or not is_standard(merge, "Reshape") or merge.outputs[0].shape is None:
        return ()
    wanted = [query.batch, query.length, query.count * query.size]
    shape = list(merge.outputs[0].shape)
    return (turn, merge) if len(shape) == 3 and are_same_axes(shape, wanted) else ()


def _only_reader(value: ir.Value) -> ir.Node | None:
    users = readers(value)
    return users[0] if len(users) == 1 and not value.is_graph_output() else None


class AttentionCalls:
    """Makes the calls of a model. Masks that several layers share are prepared once."""

    def __init__(self, model: ir.Model) -> None:
        self._reduces_by_input = model.opset_imports.get("", 0) >= _AXES_AS_INPUT
        self._made: dict[tuple[object, ...], ir.Value] = {}

    def of(self, found: Found, op: Builder) -> Call:
        """Return the call of an attention, with the nodes before it in the builder."""
        inputs = {
            name: heads.rows(op) for name, heads in (("query", found.query), ("key", found.key), ("value", found.value))
        }
        if found.masks:
            inputs["bias"] = self._bias(found, op)
        attributes = {
            "num_heads": found.query.count,
            "kv_num_heads": found.key.count,
            "scale": found.scale,
            "causal": int(found.is_causal),
        }
        return Call(ATTENTION, inputs, attributes, (found.end,), found.nodes, found.query.size)

    def behind(self, found: Found, y: ir.Value, op: Builder) -> ir.Value:
        """Write what comes behind the call, whose result is in rows and NaN where a query sees no key."""
        if found.zeroes and found.masks:
            y = op.Where(self._sees_none(found, op), op.constant(np.asarray(0, np.float32)), y)
        if not found.is_merged:
            sizes = np.asarray([0, 0, found.query.count, found.query.size], np.int64)
            y = op.Transpose(op.Reshape(y, op.constant(sizes)), perm=[0, 2, 1, 3])
        return y

    def _bias(self, found: Found, op: Builder) -> ir.Value:
        """Return the sum of the masks, with four axes."""
        key = (found.nodes[-1].graph, *found.masks)
        if key not in self._made:
            total, *others = (self._mask(mask, op) for mask in found.masks)
            for other in others:
                total = op.Add(total, other)
            self._made[key] = total
        return self._made[key]

    def _mask(self, mask: _Mask, op: Builder) -> ir.Value:
        value = mask
        if isinstance(value, _Chosen):
            zero = op.constant(np.asarray(0, np.float32))
            pair = (value.number, zero) if value.hides else (zero, value.number)
            value = op.Where(value.condition, *pair)
        lacking = 4 - len(mask.shape or ())
        return op.Unsqueeze(value, op.constant(np.arange(lacking))) if lacking else value

    def _sees_none(self, found: Found, op: Builder) -> ir.Value:
        """Return which queries see no key, ``[batch, length, 1]``."""
        bias = self._bias(found, op)
        key = (bias, "sees none")
        if key not in self._made:
            axis, heads = (op.constant(np.asarray([number], np.int64)) for number in (-1, 1))
            largest = op.ReduceMax(bias, axis) if self._reduces_by_input else op.ReduceMax(bias, axes=[-1])
            hidden = op.Equal(op.Squeeze(largest, heads), op.constant(np.asarray(-np.inf, np.float32)))
            hidden.dtype = ir.DataType.BOOL
            self._made[key] = hidden
        return self._made[key]
