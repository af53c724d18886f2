"""Read attention as calls of ``Attention``: a product, a scale, a mask, a softmax and a product.

    softmax(scale * Q K^T + bias) V

Covers: scale before or behind the first product, on one operand or both, for each head its own; masks that are added,
chosen by ``Where`` or clamped, before or behind a factor; heads split off by Reshape and Transpose, in any place; batch
and heads as one axis, throughout or between Reshapes; keys and values repeated for groups of heads; a row that sees no
key, which torch's export makes 0.

Not covered: scores that anything but this computes (``tanh``, a product with a mask), weights that anything else
reads, a mask that may widen the scores, heads of values that have another size than those of keys, and more than two
leading axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.core.strict import expose
from ffn_export.fusion import constants, safety
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.functions import attention_scores
from ffn_export.fusion.functions.attention_scores import Scores, Step
from ffn_export.fusion.functions.contract import ATTENTION, Call
from ffn_export.fusion.functions.heads import Heads, read_joined, read_keys, read_rows
from ffn_export.fusion.shapes import are_same_axes
from ffn_export.fusion.views import inputs_of, int_of, ints_of, is_standard, rank, readers

_FLOAT = ir.DataType.FLOAT
_AXES_AS_INPUT = 18  # of ReduceMax


@dataclass(frozen=True)
class Found:
    """An attention that can be one node.

    Attributes:
        query: Queries, keys and values: where they are read, and how their heads lie.
        key: See above.
        value: See above.
        scale: Factor of the scores.
        by_head: Constant with a further factor for each head.
        steps: What masks the scores.
        is_causal: Whether a query sees no later key.
        zeroes: Whether a row that sees no key is 0.
        is_joined: Whether batch and heads are one axis throughout, which counts as a batch of one head each.
        end: Result, by heads or in rows.
        is_merged: Whether the result is in rows.
        nodes: Nodes that go.
    """

    query: Heads
    key: Heads
    value: Heads
    scale: float
    by_head: ir.Value | None
    steps: tuple[Step, ...]
    is_causal: bool
    zeroes: bool
    is_joined: bool
    end: ir.Value
    is_merged: bool
    nodes: tuple[ir.Node, ...]


def find(model: ir.Model, graph: ir.Graph, *, has_causal: bool = True) -> Iterator[Found]:
    """Yield the attentions of a graph, in graph order.

    Args:
        model: The model.
        graph: The graph.
        has_causal: Whether what is written has an attribute that hides later keys. Otherwise their mask is one as any.
    """
    for node in list(graph):
        found = _readable(node, has_causal) if is_standard(node, "Softmax") else None
        if found is not None and safety.refusal(model, found.nodes, [found.end], None, 0) is None:
            yield found


def _readable(softmax: ir.Node, has_causal: bool) -> Found | None:
    try:
        return _read(softmax, has_causal)
    except Exception as error:  # noqa: BLE001 - a malformed node costs its attention, not the others
        expose(error)
        return None


def _read(softmax: ir.Node, has_causal: bool) -> Found | None:
    axes = rank(softmax.outputs[0])
    scores = attention_scores.read(softmax.inputs[0]) if axes in (3, 4) else None
    if scores is None or axes is None or int_of(softmax, "axis", -1) not in (-1, axes - 1):
        return None
    zeroed = _zeroed(softmax)
    weights = zeroed[-1].outputs[0] if zeroed else softmax.outputs[0]
    moved, mixing = _mixing(weights)
    if mixing is None:
        return None
    scores = scores.seen_as(scores.product.outputs[0], weights, *(node.outputs[0] for node in moved))
    operands = _operands(scores, mixing)
    if operands is None:
        return None
    query, key, value = operands
    if not all(attention_scores.fits(step, scores, query, key) for step in scores.steps):
        return None
    steps, is_causal = attention_scores.that_mask(scores.steps), False
    if has_causal:
        steps, is_causal = attention_scores.without_causal(steps, query, key)
    # A row that sees no key is told by the mask, which then must be the only one and alike for all heads.
    if zeroed and steps and (is_causal or len(steps) > 1 or not _is_for_all_heads(steps[0], scores)):
        return None
    ending = _behind(mixing, scores, query)
    if ending is None:
        return None
    behind, is_merged = ending
    core = (*scores.nodes, scores.product, softmax, *zeroed, *moved, mixing, *behind)
    scale, end = scores.scale * query.scale * key.scale, core[-1].outputs[0]
    is_joined = not scores.shapes
    return Found(
        query, key, value, scale, scores.by_head, steps, is_causal, bool(zeroed), is_joined, end, is_merged, core
    )


def _mixing(weights: ir.Value) -> tuple[tuple[ir.Node, ...], ir.Node | None]:
    """Return the product of weights and values, and the Reshapes before it."""
    moved: list[ir.Node] = []
    node = _only_reader(weights)
    while node is not None and attention_scores.regrouped(node) is weights and len(moved) < 3:
        moved.append(node)
        weights = node.outputs[0]
        node = _only_reader(weights)
    is_product = node is not None and is_standard(node, "MatMul") and len(inputs_of(node)) == 2
    return tuple(moved), node if node is not None and is_product and node.inputs[0] is weights else None


def _operands(scores: Scores, mixing: ir.Node) -> tuple[Heads, Heads, Heads] | None:
    """Read queries, keys and values, if they fit together."""
    first, second = inputs_of(scores.product)
    third = inputs_of(mixing)[1]
    if rank(third) != rank(mixing.inputs[0]):
        return None
    apart = bool(scores.shapes)
    query = read_rows(first) if rank(first) == 4 else read_joined(first, apart=apart, may_repeat=False)
    key = read_keys(second) if rank(second) == 4 else read_joined(second, apart=apart, are_keys=True)
    value = read_rows(third, may_repeat=True) if rank(third) == 4 else read_joined(third, apart=apart)
    if query is None or key is None or value is None or not _fit(query, key, value, scores):
        return None
    are_floats = all(each.dtype == _FLOAT for each in (query.value, key.value, value.value, mixing.outputs[0]))
    # A factor of the values would have to go behind the call.
    can_scale = value.scale == 1 and math.isfinite(query.scale * key.scale * scores.scale)
    return (query, key, value) if are_floats and can_scale else None


def _fit(query: Heads, key: Heads, value: Heads, scores: Scores) -> bool:
    """Whether heads, their sizes and the leading axes are those of one attention."""
    sizes = query.size == key.size == value.size
    groups = key.count == value.count and query.count % key.count == 0
    batches = are_same_axes([query.batch, query.batch, key.length], [key.batch, value.batch, value.length])
    # Where batch and heads are one axis in between, they are taken apart to the same two.
    shapes = [shape for shape in scores.shapes if shape is not scores.product.outputs[0].shape]
    joined = rank(scores.product.outputs[0]) == 3
    return sizes and groups and batches and (not joined or all(_leads(shape, query) for shape in shapes))


def _leads(shape: ir.Shape, query: Heads) -> bool:
    return are_same_axes(shape[:2], [query.batch, query.count])


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


def _is_for_all_heads(step: Step, scores: Scores) -> bool:
    return step.sizes[-3] == 1 or not scores.shapes


def _behind(mixing: ir.Node, scores: Scores, query: Heads) -> tuple[tuple[ir.Node, ...], bool] | None:
    """Return the nodes behind the product with the values that go, and whether they bring the result into rows.

    These are a Reshape that takes batch and heads apart, and a Transpose and a Reshape that merge heads.
    """
    result, nodes = mixing.outputs[0], tuple[ir.Node, ...]()
    if rank(result) == 3:
        if not scores.shapes:
            return (), True
        split = _only_reader(result)
        if split is None or attention_scores.regrouped(split) is not result:
            return None
        result, nodes = split.outputs[0], (split,)
        if result.shape is None or not _leads(result.shape, query):
            return None
    turn = _only_reader(result)
    if turn is None or not is_standard(turn, "Transpose") or ints_of(turn, "perm") != (0, 2, 1, 3):
        return nodes, False
    merge = _only_reader(turn.outputs[0])
    if merge is None or not is_standard(merge, "Reshape") or merge.outputs[0].shape is None:
        return nodes, False
    wanted = [query.batch, query.length, query.count * query.size]
    shape = list(merge.outputs[0].shape)
    is_merged = len(shape) == 3 and are_same_axes(shape, wanted)
    return ((*nodes, turn, merge), True) if is_merged else (nodes, False)


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
        if found.by_head is not None:
            inputs["query"] = _scaled_by_head(inputs["query"], found.by_head, found.query.size, op)
        if found.steps:
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
        if found.zeroes and found.steps:
            y = op.Where(self._sees_none(found, op), op.constant(np.asarray(0, np.float32)), y)
        if not found.is_merged:
            sizes = np.asarray([0, 0, found.query.count, found.query.size], np.int64)
            y = op.Transpose(op.Reshape(y, op.constant(sizes)), perm=[0, 2, 1, 3])
        return y

    def _bias(self, found: Found, op: Builder) -> ir.Value:
        """Return what the steps make of zero, with four axes."""
        key = (found.nodes[-1].graph, found.is_joined, found.query.count, *found.steps)
        if key not in self._made:
            self._made[key] = _masked_zero(found, op)
        return self._made[key]

    def _sees_none(self, found: Found, op: Builder) -> ir.Value:
        """Return which queries see no key, ``[batch, length, 1]``.

        ONNX Runtime reduces no axis of an empty tensor, so batch, queries and keys get an element more for that.
        """
        bias = self._bias(found, op)
        key = (bias, "sees none")
        if key not in self._made:
            least, more = np.asarray(-np.inf, np.float32), np.asarray([0, 0, 0, 0, 1, 0, 1, 1], np.int64)
            some = op.Pad(bias, op.constant(more), op.constant(least))
            axis, heads = (op.constant(np.asarray([number], np.int64)) for number in (-1, 1))
            largest = op.ReduceMax(some, axis) if self._reduces_by_input else op.ReduceMax(some, axes=[-1])
            first, last, axes = (op.constant(np.asarray(each, np.int64)) for each in ([0, 0], [-1, -1], [0, 2]))
            rows = op.Squeeze(op.Slice(largest, first, last, axes), heads)
            hidden = op.Equal(rows, op.constant(least))
            hidden.dtype = ir.DataType.BOOL
            self._made[key] = hidden
        return self._made[key]


def _masked_zero(found: Found, op: Builder) -> ir.Value:
    total: ir.Value | None = None
    for step in found.steps:
        if step.operator == "Mul" and total is not None:
            total = op.Mul(total, op.constant(np.asarray(step.factor, np.float32)))
        elif step.operator == "Max" and total is not None:
            total = op.Max(total, step.number)
        elif step.mask is not None:
            mask = _four_axes(step, step.mask, found, op)
            if step.operator == "Where":
                other = op.constant(np.asarray(0, np.float32)) if total is None else total
                total = op.Where(mask, *((step.number, other) if step.hides else (other, step.number)))
            elif total is None:
                total = op.Neg(mask) if step.operator == "Sub" else mask
            else:
                total = getattr(op, step.operator)(total, mask)
    assert total is not None  # the first step has a mask
    return total


def _four_axes(step: Step, mask: ir.Value, found: Found, op: Builder) -> ir.Value:
    """Return a mask with four axes: ``[batch, heads, queries, keys]``, each of them or 1."""
    lacking = 4 - (rank(mask) or 0)
    if step.axes == 4 or lacking > 1 or (not found.is_joined and step.sizes[0] == 1):
        y = op.Unsqueeze(mask, op.constant(np.arange(lacking))) if lacking else mask
    elif found.is_joined:
        y = op.Unsqueeze(mask, op.constant(np.asarray([1], np.int64)))
    else:
        batch, last = op.Shape(found.query.value, start=0, end=1), op.Shape(mask, start=1)
        sizes = op.Concat(batch, op.constant(np.asarray([found.query.count], np.int64)), last, axis=0)
        for value in (batch, last, sizes):
            value.dtype = ir.DataType.INT64
        # allowzero: an empty sequence is a size of 0 and not "as before".
        y = op.Reshape(mask, sizes, allowzero=1)
    y.dtype = mask.dtype
    return y


def _scaled_by_head(rows: ir.Value, factors: ir.Value, size: int, op: Builder) -> ir.Value:
    """Return queries in rows, those of each head times its factor."""
    tensor = constant_tensor(factors)
    assert tensor is not None
    y: ir.Value = op.Mul(rows, op.constant(np.repeat(tensor.numpy().reshape(-1), size)))
    y.type, y.shape = rows.type, rows.shape
    return y
