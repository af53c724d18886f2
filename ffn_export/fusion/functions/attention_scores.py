"""Read the scores of an attention: the product of queries and keys, what scales it, and what masks it.

Whatever is done to the product is done to zero as well, and the result is the bias: ``(s p + m) f`` is ``s f p + m f``,
and a score that ``Where`` hides is the hiding number, since adding a score to that changes nothing. So masks may come
in any order, with factors among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile

import numpy as np
import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.functions.heads import Heads, factor_of
from ffn_export.fusion.shapes import are_same_axes, are_same_operand_axes
from ffn_export.fusion.uniform import number_everywhere
from ffn_export.fusion.views import input_at, inputs_of, int_of, is_standard, orders, producer, rank

_FLOAT = ir.DataType.FLOAT
# A hidden score: added to any other, it stays the same number.
_HIDDEN = -1e30
_MOST_STEPS = 12  # from the softmax to the product; sums are searched on both sides
_LARGEST_TRIANGLE = 1 << 20


@dataclass(frozen=True)
class Step:
    """One operation on masked scores.

    Attributes:
        operator: ``Add`` or ``Sub`` of a mask, ``Where`` that hides, ``Max`` with a hiding number, or ``Mul`` by a
            number.
        axes: Number of axes of the scores that it is applied to.
        mask: The mask, or the condition of ``Where``.
        number: The number, of ``Where`` and ``Max``.
        hides: Whether ``Where`` hides what is True.
        factor: The number of ``Mul``.
    """

    operator: str
    axes: int
    mask: ir.Value | None = None
    number: ir.Value | None = None
    hides: bool = True
    factor: float = 1.0

    @property
    def sizes(self) -> list[int | ir.SymbolicDim]:
        """The sizes of the mask, with an axis for each of the scores."""
        shape = [] if self.mask is None or self.mask.shape is None else list(self.mask.shape)
        return [1] * (self.axes - len(shape)) + shape

    @property
    def does_nothing(self) -> bool:
        """Whether it adds zeros, or hides no score."""
        if self.mask is None:
            return False
        nothing = 1.0 if self.operator == "Where" and not self.hides else 0.0
        return number_everywhere(self.mask) == nothing


@dataclass(frozen=True)
class Scores:
    """Scores before the softmax.

    Attributes:
        product: The product of queries and keys.
        scale: Its factor.
        by_head: Constant with a further factor for each head.
        steps: What is done to the scaled product, in order; the first is a mask.
        shapes: Shapes of the scores with four axes.
        nodes: All nodes but the product.
    """

    product: ir.Node
    scale: float = 1.0
    by_head: ir.Value | None = None
    steps: tuple[Step, ...] = ()
    shapes: tuple[ir.Shape, ...] = ()
    nodes: tuple[ir.Node, ...] = ()

    def then(self, node: ir.Node, *steps: Step) -> Scores:
        """Return the scores behind another node."""
        return replace(self, steps=(*self.steps, *steps), nodes=(*self.nodes, node))

    def scaled(self, factor: float, node: ir.Node) -> Scores:
        """Return the scores behind a factor."""
        steps = [Step("Mul", 0, factor=factor)] if self.steps else []
        return replace(self.then(node, *steps), scale=self.scale * factor)

    def seen_as(self, *values: ir.Value) -> Scores:
        """Return the scores with the shapes of values that hold them, too."""
        found = [value.shape for value in values if value.shape is not None and len(value.shape) == 4]
        return replace(self, shapes=(*self.shapes, *found))


def read(value: ir.Value | None, most: int = _MOST_STEPS) -> Scores | None:
    """Read scores back to their product; None if they are anything else, such as ``tanh`` of it."""
    node = None if value is None else value.producer()
    axes = rank(value)
    if node is None or value is None or axes not in (3, 4) or not most:
        return None
    if is_standard(node, "MatMul"):
        operands = inputs_of(node)
        is_product = len(operands) == 2 and not any(map(constants.is_fixed, operands))
        return Scores(node) if is_product and all(rank(each) == axes for each in operands) else None
    return next(_behind(node, value, axes, most - 1), None)


def _behind(node: ir.Node, value: ir.Value, axes: int, most: int) -> Iterator[Scores]:
    """Yield the scores behind a node, for each of its inputs that holds scores."""
    factor = factor_of(node)
    before = regrouped(node)
    if factor is not None:
        found = read(factor[0], most)
        if found is not None:
            yield found.scaled(factor[1], node)
    elif before is not None:
        found = read(before, most)
        if found is not None:
            yield found.then(node).seen_as(before, value)
    elif is_standard(node, "Mul"):
        for inner, other in orders(node):
            found = read(inner, most) if _is_by_head(other, value) else None
            if found is not None and not found.steps and found.by_head is None:
                yield replace(found.then(node), by_head=other)
    else:
        for inner, step in _steps(node, axes):
            found = read(inner, most)
            if found is not None:
                yield found.then(node, step)


def _steps(node: ir.Node, axes: int) -> Iterator[tuple[ir.Value, Step]]:
    """Yield what a node may do to an input that holds scores, for each of its inputs."""
    if is_standard(node, "Add", "Sub"):
        for inner, mask in orders(node)[: 1 if node.op_type == "Sub" else 2]:
            if mask.dtype == _FLOAT:
                yield inner, Step(node.op_type, axes, mask)
    elif is_standard(node, "Max"):
        for inner, number in orders(node):
            if _hides(number, axes):
                yield inner, Step("Max", axes, number=number)
    elif is_standard(node, "Where") and len(inputs_of(node)) == 3:
        condition, yes, no = inputs_of(node)
        for inner, number, hides in ((no, yes, True), (yes, no, False)):
            if _hides(number, axes):
                yield inner, Step("Where", axes, condition, number, hides)


def regrouped(node: ir.Node) -> ir.Value | None:
    """Return what a Reshape reads that joins batch and heads, or takes them apart, and keeps the last two axes."""
    before, after = input_at(node, 0), node.outputs[0]
    if not is_standard(node, "Reshape") or before is None or before.shape is None or after.shape is None:
        return None
    is_moved = {len(before.shape), len(after.shape)} == {3, 4}
    return before if is_moved and are_same_axes(before.shape[-2:], after.shape[-2:]) else None


def _hides(number: ir.Value, axes: int) -> bool:
    hidden = constants.number(number)
    return hidden is not None and hidden <= _HIDDEN and number.dtype == _FLOAT and constants.rank(number) <= axes


def _is_by_head(value: ir.Value, scores: ir.Value) -> bool:
    """Whether a constant holds a number for each head of scores with four axes."""
    if not constants.is_constant(value) or value.dtype != _FLOAT or value.shape is None or rank(scores) != 4:
        return False
    sizes = [1] * (4 - len(value.shape)) + list(value.shape)
    heads = None if scores.shape is None else scores.shape[1]
    return isinstance(heads, int) and sizes == [1, heads, 1, 1]


def fits(step: Step, scores: Scores, query: Heads, key: Heads) -> bool:
    """Whether each axis of a mask is 1 or that of the scores, for all inputs that the graph takes.

    Keys need no proof: the product with the values fails unless the weights have as many keys as those. So a mask of
    as many queries as keys needs none for its queries, where the scores have as many of both.
    """
    if step.mask is None:
        return True
    shape = step.mask.shape
    if shape is None or len(shape) > step.axes:
        return False
    *leading, queries, keys = step.sizes
    is_square = are_same_axes([queries], [keys]) and are_same_axes([query.length], [key.length])
    if step.axes == 4:
        full = [query.batch, query.count]
    else:  # batch and heads as one
        whole = scores.product.outputs[0].shape
        full = [] if whole is None or len(whole) != 3 else [whole[0]]
    pairs = [*zip(leading, full, strict=True), *([] if is_square else [(queries, query.length)])] if full else []
    return bool(pairs) and all(size == 1 or are_same_operand_axes([size], [of]) for size, of in pairs)


def that_mask(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps without those that do nothing, and without those that compute with zeros only."""
    return tuple(dropwhile(lambda step: step.mask is None, (step for step in steps if not step.does_nothing)))


def without_causal(steps: tuple[Step, ...], query: Heads, key: Heads) -> tuple[tuple[Step, ...], bool]:
    """Return the steps without a mask that hides every later key and nothing else, and whether there was one.

    A finite number must not meet other masks: where those hide all that a query sees, the keys that are later count.
    """
    square = [query.length, key.length]
    for step in steps if are_same_axes([query.length], [key.length]) else ():
        hidden = _triangle(step.mask) if step.operator == "Add" else None
        if hidden is None or any(size != 1 for size in step.sizes[:-2]):
            continue
        others = tuple(each for each in steps if each is not step)
        factors = [each.factor for each in others if each.operator == "Mul"]
        stays_hidden = min(factors, default=1) > 0 and hidden * math.prod(factors) <= _HIDDEN
        may_be = {"Add", "Sub", "Mul"} if hidden == -math.inf else {"Mul"}
        is_alone = {each.operator for each in others} <= may_be
        if stays_hidden and is_alone and are_same_operand_axes(step.sizes[-2:], square):
            return that_mask(others), True
    return steps, False


def _triangle(mask: ir.Value | None) -> float | None:
    """Return the number above the diagonal of a mask that is 0 elsewhere; None for any other mask."""
    tensor = constants.tensor_of(mask)
    if tensor is not None:
        return _constant_triangle(tensor)
    where = producer(mask, "Where")
    equal = producer(input_at(where, 0), "Equal")
    lower = producer(input_at(equal, 0), "Trilu")
    ones = producer(input_at(lower, 0), "Expand")
    if where is None or equal is None or lower is None or ones is None:
        return None
    numbers = [constants.number(each) for each in (*where.inputs[1:], equal.inputs[1], ones.inputs[0])]
    hidden, *others = numbers
    diagonal = input_at(lower, 1)
    is_lower = int_of(lower, "upper", 1) == 0 and (diagonal is None or constants.number(diagonal) == 0)
    return hidden if hidden is not None and hidden <= _HIDDEN and others == [0, 0, 1] and is_lower else None


def _constant_triangle(tensor: ir.TensorProtocol) -> float | None:
    if tensor.dtype != _FLOAT or not 1 < tensor.size <= _LARGEST_TRIANGLE:
        return None
    array = tensor.numpy()
    if array.ndim < 2 or array.size != array.shape[-1] * array.shape[-2]:
        return None
    square = array.reshape(array.shape[-2:])
    hidden = float(square[0, -1])
    expected = np.triu(np.full_like(square, hidden), 1)
    return hidden if hidden <= _HIDDEN and np.array_equal(square, expected) else None
