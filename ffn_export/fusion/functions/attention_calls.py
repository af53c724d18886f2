"""Read attention as calls of ``Attention``: a product, a scale, a mask, a softmax and a product.

    softmax(scale * Q K^T + bias) V

Covers: scale before or behind the first product, on one operand or both, for each head its own; masks that are added,
chosen by ``Where`` or clamped, before or behind a factor; heads split off by Reshape and Transpose, in any place, from
rows of queries, keys and values apart or beside each other, with the batch or the length first; batch and heads as one
axis, throughout or between Reshapes; keys and values repeated for groups of heads; a row that sees no key, which
torch's export makes 0.

Not covered: scores that anything but this computes (``tanh``, a product with a mask), weights that anything else
reads, a mask that may widen the scores, heads of values that have another size than those of keys, and more than two
leading axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.strict import expose
from ffn_export.fusion import constants, safety
from ffn_export.fusion.functions import attention_scores
from ffn_export.fusion.functions.attention_scores import Scores, Step
from ffn_export.fusion.functions.axes import Axes, Factor
from ffn_export.fusion.functions.axes import behind as axes_behind
from ffn_export.fusion.functions.heads import Heads, read_joined, read_keys, read_rows
from ffn_export.fusion.shapes import are_same_axes, is_along_last
from ffn_export.fusion.views import inputs_of, int_of, is_standard, only_reader, rank

_FLOAT = ir.DataType.FLOAT
_LARGEST = float(np.finfo(np.float32).max)  # an attribute is a float32
_MOST_MERGING = 4  # nodes that merge heads


@dataclass(frozen=True)
class Merging:
    """How heads are merged to rows behind an attention.

    Attributes:
        has_length_first: Whether the length then stands before the batch.
        joining: Reshape that joins batch and length at the end, or None.
    """

    has_length_first: bool = False
    joining: ir.Node | None = None


@dataclass(frozen=True)
class Found:
    """An attention that can be one node.

    Attributes:
        query: Queries; where they are read, and how their heads lie.
        key: Keys, likewise.
        value: Values, likewise.
        scale: Factor of the scores.
        by_head: Constant with a further factor for each head.
        steps: What masks the scores.
        is_causal: Whether a query sees no later key.
        zeroes: Whether a row that sees no key is 0.
        is_joined: Whether batch and heads are one axis throughout, which counts as a batch of one head each.
        end: Result, by heads or in rows.
        merging: How it came to be in rows; None if it is by heads.
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
    merging: Merging | None
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
        # A branch may read what a graph around it computes, which other branches read, too.
        if found is None or any(each.graph is not graph for each in found.nodes):
            continue
        if safety.refusal(model, found.nodes, [found.end], None, 0) is None:
            yield found


def _readable(softmax: ir.Node, has_causal: bool) -> Found | None:
    try:
        return _read(softmax, has_causal)
    except Exception as error:  # noqa: BLE001 - a malformed node costs its attention, not the others
        expose(error)
        return None


def _read(softmax: ir.Node, has_causal: bool) -> Found | None:
    scores = attention_scores.read(softmax.inputs[0]) if rank(softmax.outputs[0]) in (3, 4) else None
    if scores is None or not is_along_last(softmax, softmax.outputs[0], -1):
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
    is_for_all_heads = not scores.shapes or not steps or steps[0].sizes[-3] == 1
    if zeroed and steps and (is_causal or len(steps) > 1 or not is_for_all_heads):
        return None
    ending = _behind(mixing, scores, query)
    if ending is None:
        return None
    behind, merging = ending
    core = (*scores.nodes, scores.product, softmax, *zeroed, *moved, mixing, *behind)
    scale, end = scores.scale * query.scale * key.scale, core[-1].outputs[0]
    is_joined = not scores.shapes
    by_head, zeroes = scores.by_head, bool(zeroed)
    return Found(query, key, value, scale, by_head, steps, is_causal, zeroes, is_joined, end, merging, core)


def _mixing(weights: ir.Value) -> tuple[tuple[ir.Node, ...], ir.Node | None]:
    """Return the product of weights and values, and the Reshapes before it."""
    moved: list[ir.Node] = []
    node = only_reader(weights)
    while node is not None and attention_scores.regrouped(node) is weights and len(moved) < 3:
        moved.append(node)
        weights = node.outputs[0]
        node = only_reader(weights)
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
    can_scale = value.scale == 1 and abs(query.scale * key.scale * scores.scale) <= _LARGEST
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
    """Return the nodes that make a row 0 that sees no key, or none.

    They are ``Where(IsNaN(weights), 0, weights)``, or ``Where(IsInf(scores), 0, weights)`` for minus infinity alone.
    """
    weights = softmax.outputs[0]
    for told in (weights, inputs_of(softmax)[0]):
        for user in told.consumers():
            where = only_reader(user.outputs[0]) if _tells_hidden(user, of_weights=told is weights) else None
            if where is None or not is_standard(where, "Where") or len(inputs_of(where)) != 3:
                continue
            condition, yes, no = inputs_of(where)
            if condition is user.outputs[0] and constants.number(yes) == 0 and no is weights:
                return user, where
    return ()


def _tells_hidden(node: ir.Node, *, of_weights: bool) -> bool:
    """Whether a node is true where a row sees no key; of scores, where this key is not seen."""
    if of_weights:
        return is_standard(node, "IsNaN")
    detects = int_of(node, "detect_negative", 1), int_of(node, "detect_positive", 1)
    return is_standard(node, "IsInf") and detects == (1, 0)


def _behind(mixing: ir.Node, scores: Scores, query: Heads) -> tuple[tuple[ir.Node, ...], Merging | None] | None:
    """Return the nodes behind the product with the values that go, and how they merge heads to rows, if they do.

    The nodes are a Reshape that takes batch and heads apart, and those that merge.
    """
    result, nodes = mixing.outputs[0], tuple[ir.Node, ...]()
    if rank(result) == 3:
        if not scores.shapes:
            return (), Merging()
        split = only_reader(result)
        if split is None or attention_scores.regrouped(split) is not result:
            return None
        result, nodes = split.outputs[0], (split,)
        if result.shape is None or not _leads(result.shape, query):
            return None
    batch, count, length, size = (Factor(each) for each in (query.batch, query.count, query.length, query.size))
    axes: Axes = ((batch,), (count,), (length,), (size,))
    merging: list[ir.Node] = []
    while axes[-1] != (count, size) and len(merging) < _MOST_MERGING:
        node = only_reader(result)
        moved = None if node is None else axes_behind(node, node.outputs[0], axes)
        if node is None or moved is None:
            return nodes, None
        merging.append(node)
        result, axes = node.outputs[0], moved.axes
    order = [factor for axis in axes[:-1] for factor in axis]
    is_joined = len(axes) == 2 and is_standard(merging[-1], "Reshape")
    if set(order) != {batch, length} or not (is_joined or len(axes) == 3):
        return nodes, None
    return (*nodes, *merging), Merging(order[0] is not batch, merging[-1] if is_joined else None)
