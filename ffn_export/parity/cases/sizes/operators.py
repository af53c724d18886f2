"""Infer shapes, and numbers computed from sizes, through each operator.

The outputs of an unlisted operator have unknown shapes and numbers. The flow of sizes still passes through it; only the
choice of sizes to try becomes less precise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ffn_export.core.activations import OPERATORS
from ffn_export.core.words import words
from ffn_export.parity.cases.sizes.expressions import Expression, Expressions
from ffn_export.parity.cases.sizes.facts import MOST_ITEMS, Fact, Items, Kind

Facts = Sequence[Fact | None]
Shape = tuple[Expression, ...]

_TO_THE_END = 2**31 - 1
_ELEMENTWISE = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
    "Pow": "**",
    "Equal": "==",
    "Less": "<",
    "Greater": ">",
    "LessOrEqual": "<=",
    "GreaterOrEqual": ">=",
    "And": "and",
    "Or": "or",
    "Xor": "xor",
    "Not": "not",
    "Min": "min",
    "Max": "max",
    "Where": "where",
    "Abs": "abs",
    "Neg": "negative",
    "Sign": "sign",
    "Sqrt": "sqrt",
    "Erf": "erf",
    "Reciprocal": "reciprocal",
    "Exp": "exp",
    "Log": "log",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round",
    "Tanh": "tanh",
    "Sin": "sin",
    "Cos": "cos",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Sum": "+",
}
_OF_BOOLEANS = frozenset({"==", "<", ">", "<=", ">=", "and", "or", "xor", "not"})
# Operators that return the shape of their first input: element-wise ones and normalisations.
_SAME_SHAPE = words(
    "Cast CastLike Dropout Identity IsInf IsNaN LayerNormalization LogSoftmax RMSNormalization Softmax Trilu CumSum "
    "SimplifiedLayerNormalization InstanceNormalization GroupNormalization BatchNormalization SkipLayerNormalization "
    "SkipSimplifiedLayerNormalization"
) | {*(name for _, name in OPERATORS)}


class Inference:
    """Infers outputs from inputs, without state between nodes."""

    def __init__(self, make: Expressions) -> None:
        self.make = make

    def of(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        """Return the fact of the first output, of the kind that the flow decided."""
        rule: Callable[[ir.Node, Facts, Kind], Fact] | None = getattr(self, f"_{node.op_type.lower()}", None)
        if node.op_type in _ELEMENTWISE and all(each is not None for each in inputs):
            return self._elementwise(node, [each for each in inputs if each is not None], kind)
        if rule is not None and node.domain in ("", "com.microsoft"):
            return rule(node, inputs, kind)
        first = next((each for each in inputs if each is not None), None)
        if node.op_type in _SAME_SHAPE and first is not None:
            return Fact(kind, first.shape)
        return Fact(kind)

    def numbers(self, array: np.ndarray[Any, np.dtype[Any]]) -> Items:
        """Return an array of numbers as constant expressions."""
        items = np.empty(array.shape, dtype=object)
        for index in np.ndindex(array.shape):
            items[index] = self.make.number(array[index].item())
        return items

    def fixed(self, sizes: Sequence[int]) -> Shape:
        """Return a shape of constant sizes."""
        return tuple(self.make.number(size) for size in sizes)

    def known(self, kind: Kind, items: Items, *, is_float: bool = False) -> Fact:
        """Return the fact of a tensor whose elements are all known."""
        return Fact(kind, self.fixed(items.shape), items, None, is_float)

    def _broadcast(self, shapes: Sequence[Shape | None]) -> Shape | None:
        if any(shape is None for shape in shapes):
            return None
        known = [shape for shape in shapes if shape is not None]
        one = self.make.number(1)
        rank = max(map(len, known))
        aligned = [(one,) * (rank - len(shape)) + shape for shape in known]
        return tuple(next((size for size in axis if size is not one), one) for axis in zip(*aligned, strict=True))

    def _elementwise(self, node: ir.Node, inputs: Sequence[Fact], kind: Kind) -> Fact:
        name = _ELEMENTWISE[node.op_type]
        is_float = any(each.is_float for each in inputs[1:] if name == "where") or (
            name not in _OF_BOOLEANS and any(each.is_float for each in inputs)
        )
        if name == "/" and not is_float:
            name = "//"
        shape = self._broadcast([each.shape for each in inputs])
        known = [each.items for each in inputs if each.items is not None]
        if len(known) == len(inputs):
            arrays: Sequence[Items] = np.broadcast_arrays(*known)
            if arrays[0].size <= MOST_ITEMS:
                items = np.empty(arrays[0].shape, dtype=object)
                for index in np.ndindex(items.shape):
                    items[index] = self._folded(name, [array.item(*index) for array in arrays])
                return self.known(kind, items, is_float=is_float)
        samples = [each.sample for each in inputs]
        last = None if None in samples else self._folded(name, [each for each in samples if each is not None])
        return Fact(kind, shape, None, last, is_float, all(each.is_same or _is_one(each) for each in inputs))

    def _folded(self, name: str, operands: Sequence[Expression]) -> Expression:
        if len(operands) <= 2 or name == "where":
            return self.make.of(name, *operands)
        return self._folded(name, [self.make.of(name, *operands[:2]), *operands[2:]])

    def _unknown(self, node: ir.Node, what: str) -> Expression:
        return self.make.unknown(f"{what} of {node.outputs[0].name}")

    def _constantofshape(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        fill = node.attributes.get_tensor("value", None) if "value" in node.attributes else None
        number = self.make.number(0 if fill is None else fill.numpy().reshape(-1)[0].item())
        is_float = fill is None or fill.dtype.is_floating_point()
        shape = _sizes(inputs[0])
        numbers = None if inputs[0] is None else inputs[0].numbers
        if numbers is not None and int(np.prod(numbers)) <= MOST_ITEMS:
            items = np.empty(numbers, dtype=object)
            items.fill(number)
            return self.known(kind, items, is_float=is_float)
        return Fact(kind, shape, None, number, is_float, is_same=True)

    def _shape(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        if inputs[0] is None or inputs[0].shape is None:
            return Fact(kind, last=self._unknown(node, "a size"))
        end = node.attributes.get_int("end", len(inputs[0].shape))
        shape = inputs[0].shape[node.attributes.get_int("start", 0) : end]
        return self.known(kind, _vector(shape))

    def _size(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        shape = None if inputs[0] is None else inputs[0].shape
        return self.known(kind, _scalar(self._unknown(node, "elements") if shape is None else self.make.product(shape)))

    def _range(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        start, limit, step = (None if each is None else each.sample for each in inputs)
        if start is None or limit is None or step is None:
            return Fact(kind, (self._unknown(node, "elements"),), last=self._unknown(node, "the last"))
        is_float = any(each is not None and each.is_float for each in inputs)
        of = self.make.of
        count = of("max", of("int", of("ceil", of("/", of("-", limit, start), step))), self.make.number(0))
        if step.number == 1 and not is_float:
            count = of("-", limit, start)
        if count.number is not None and 0 <= count.number <= MOST_ITEMS:
            items = [of("+", start, of("*", step, self.make.number(index))) for index in range(int(count.number))]
            return self.known(kind, _vector(items), is_float=is_float)
        return Fact(kind, (count,), None, of("-", limit, step), is_float)

    def _nonzero(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given = inputs[0]
        if given is None or given.shape is None or given.kind is Kind.DATA:
            return Fact(kind)
        count = self.make.product(given.shape)
        last = self.make.of("-", given.shape[-1] if given.shape else count, self.make.number(1))
        return Fact(kind, (self.make.number(len(given.shape)), count), None, last)

    def _expand(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given, shape = inputs[0], _sizes(inputs[1])
        if given is None or given.shape is None or shape is None:
            return Fact(kind, None, None, None if given is None else given.sample)
        wide = self._broadcast([given.shape, shape])
        numbers = [] if wide is None else [each.number for each in wide]
        if given.items is not None and None not in numbers and np.prod([int(n or 0) for n in numbers]) <= MOST_ITEMS:
            return self.known(
                kind, np.broadcast_to(given.items, [int(n or 0) for n in numbers]), is_float=given.is_float
            )
        return Fact(kind, wide, None, given.sample, given.is_float, given.is_same or _is_one(given))

    def _cast(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given = inputs[0]
        assert given is not None
        to = ir.DataType(node.attributes.get_int("to", 1))
        name = "bool" if to == ir.DataType.BOOL else "int" if given.is_float and to.is_integer() else None
        change = (lambda e: e) if name is None else (lambda e: self.make.of(str(name), e))
        last = None if given.last is None else change(given.last)
        items = None if given.items is None else _each(change, given.items)
        return Fact(kind, given.shape, items, last, to.is_floating_point(), given.is_same)

    def _identity(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given = inputs[0]
        assert given is not None
        return Fact(kind, given.shape, given.items, given.last, given.is_float, given.is_same)

    def _clip(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given = inputs[0]
        assert given is not None
        last = given.sample
        for name, bound in zip(("max", "min"), (*inputs[1:3], None, None), strict=False):
            if bound is not None and bound.sample is not None and last is not None:
                last = self.make.of(name, last, bound.sample)
        return Fact(kind, given.shape, None, last, given.is_float, given.is_same)

    def _softmax(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given = inputs[0]
        if given is None or given.shape is None or given.kind is Kind.DATA or not given.shape:
            return Fact(kind, None if given is None else given.shape)
        return Fact(kind, given.shape, None, self.make.of("reciprocal", given.shape[-1]), is_float=True)

    def _cumsum(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given, axis = inputs[0], None if len(inputs) < 2 or inputs[1] is None else inputs[1].numbers
        if given is None or given.shape is None or given.sample is None or not axis:
            return Fact(kind, None if given is None else given.shape)
        return Fact(kind, given.shape, None, self.make.of("*", given.sample, given.shape[axis[0]]), given.is_float)

    def _matmul(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        one, other = inputs[0], inputs[1]
        if (
            one is None
            or other is None
            or not one.shape
            or not other.shape
            or min(len(one.shape), len(other.shape)) < 2
        ):
            return Fact(kind)
        outer = self._broadcast([one.shape[:-2], other.shape[:-2]])
        shape = None if outer is None else (*outer, one.shape[-2], other.shape[-1])
        last = None
        if one.sample is not None and other.sample is not None and kind is not Kind.DATA:
            last = self.make.product([one.sample, other.sample, one.shape[-1]])
        return Fact(kind, shape, None, last, is_float=True)

    def _reduce(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given = inputs[0]
        assert given is not None
        listed = inputs[1].numbers if len(inputs) > 1 and inputs[1] is not None else None
        if given.shape is None:
            last = given.sample if node.op_type != "ReduceSum" else self._unknown(node, "a count")
            return Fact(kind, None, None, last if kind is Kind.SIZE else None, given.is_float)
        if listed is None:
            listed = list(node.attributes.get_ints("axes", ()) if "axes" in node.attributes else ())
        rank = len(given.shape)
        axes = {axis % rank for axis in listed or range(rank)} if rank else set()
        keep = node.attributes.get_int("keepdims", 1)
        one = self.make.number(1)
        pairs = ((one if axis in axes else size) for axis, size in enumerate(given.shape) if keep or axis not in axes)
        shape = tuple(pairs)
        last = given.sample
        if (
            given.items is not None
            and node.op_type in ("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin")
            and rank == 1
        ):
            names = {"ReduceProd": "*", "ReduceSum": "+", "ReduceMax": "max", "ReduceMin": "min"}
            last = self._folded(names[node.op_type], list(given.items)) if given.items.size else None
        elif node.op_type == "ReduceSum" and last is not None:
            last = self.make.product([last, *(given.shape[axis] for axis in axes)])
        elif node.op_type not in ("ReduceMean", "ReduceMax", "ReduceMin"):
            last = None
        if last is not None and not any(size is not one for size in shape):
            items = np.empty([1] * len(shape), dtype=object)
            items.fill(last)
            return self.known(kind, items, is_float=given.is_float)
        return Fact(kind, shape, None, last, given.is_float, given.is_same)

    _reducesum = _reducemean = _reducemax = _reducemin = _reduceprod = _reduce

    def _gather(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        table, index = inputs[0], inputs[1]
        assert table is not None
        assert index is not None
        axis = node.attributes.get_int("axis", 0)
        numbers = index.numbers
        if table.items is not None and numbers is not None and index.items is not None and table.items.ndim:
            places = np.array(numbers, dtype=np.int64).reshape(index.items.shape)
            rows = table.items.shape[axis]
            if places.size and (abs(places) <= rows).all() and (places < rows).all():
                taken = table.items.take(places % rows, axis)
                return self.known(kind, _as_items(taken), is_float=table.is_float)
        shape = None
        if table.shape is not None and index.shape is not None and table.shape:
            axis %= len(table.shape)
            shape = (*table.shape[:axis], *index.shape, *table.shape[axis + 1 :])
        last = table.sample if table.is_same or numbers is not None else self._looked_up(table, index)
        return Fact(kind, shape, None, last, table.is_float)

    def _looked_up(self, table: Fact, index: Fact) -> Expression | None:
        """Return the element of a small 1-D table, or else the index, which tells its rows apart, clamped to them."""
        if table.items is not None and table.items.ndim == 1 and index.sample is not None:
            result: Expression = table.items[-1]
            for place, item in reversed(list(enumerate(table.items[:-1]))):
                result = self.make.of("where", self.make.of("<=", index.sample, self.make.number(place)), item, result)
            return result
        rows = table.shape[0] if table.shape else None
        if index.sample is None or rows is None:
            return index.sample
        return self.make.of("min", index.sample, self.make.of("-", rows, self.make.number(1)))

    def _slice(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given = inputs[0]
        if given is None or given.shape is None or len(inputs) < 3:
            return Fact(kind)
        starts, ends, axes, steps = (_listed(inputs, place) for place in (1, 2, 3, 4))
        if starts is None or ends is None:
            return Fact(kind)
        where = list(range(len(starts))) if axes is None else [int(axis.number or 0) for axis in axes]
        by = [1] * len(starts) if steps is None else [int(step.number or 0) for step in steps]
        cuts: list[Any] = [slice(None)] * len(given.shape)
        shape = list(given.shape)
        for axis, start, end, step in zip(where, starts, ends, by, strict=False):
            cuts[axis] = _cut(start, end, step)
            shape[axis] = self._length(shape[axis], start, end, step) or self._unknown(node, "a size")
        if given.items is not None and None not in cuts:
            return self.known(kind, _as_items(given.items[tuple(cuts)]), is_float=given.is_float)
        return Fact(kind, tuple(shape), None, given.sample if given.is_same else None, given.is_float, given.is_same)

    def _length(self, size: Expression, start: Expression, end: Expression, step: int) -> Expression | None:
        """Return the length of a slice, as an expression that compares its constant bounds with the size."""
        if step != 1:
            return None
        return self.make.of("-", self._place(size, end), self._place(size, start))

    def _place(self, size: Expression, place: Expression) -> Expression:
        number = place.number
        if number is not None and number >= _TO_THE_END:
            return size
        if number is not None and number < 0:
            return self.make.of("max", self.make.of("+", size, place), self.make.number(0))
        return place if number == 0 else self.make.of("min", place, size)

    def _concat(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given = [each for each in inputs if each is not None]
        axis = node.attributes.get_int("axis", 0)
        is_float = any(each.is_float for each in given)
        if all(each.items is not None for each in given):
            return self.known(kind, np.concatenate([each.items for each in given], axis), is_float=is_float)
        shapes = [each.shape for each in given if each.shape]
        if len(shapes) < len(given):
            return Fact(kind, None, None, given[-1].sample, is_float)
        axis %= len(shapes[0])
        total = self._folded("+", [shape[axis] for shape in shapes]) if len(shapes) > 1 else shapes[0][axis]
        return Fact(kind, (*shapes[0][:axis], total, *shapes[0][axis + 1 :]), None, given[-1].sample, is_float)

    def _reshape(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given, sizes = inputs[0], _sizes(inputs[1])
        if given is None or sizes is None:
            return Fact(kind, None, None, None if given is None else given.sample)
        wanted = list(sizes)
        if given.shape is not None and not node.attributes.get_int("allowzero", 0):
            old = given.shape
            wanted = [old[i] if size.number == 0 and i < len(old) else size for i, size in enumerate(wanted)]
        open_axis = next((i for i, size in enumerate(wanted) if size.number == -1), None)
        if open_axis is not None:
            rest = self.make.product(size for i, size in enumerate(wanted) if i != open_axis)
            total = None if given.shape is None else self.make.product(given.shape)
            wanted[open_axis] = self._unknown(node, "a size") if total is None else self._quotient(total, rest)
        numbers = [size.number for size in wanted]
        if (
            given.items is not None
            and None not in numbers
            and given.items.size == np.prod([int(n or 0) for n in numbers])
        ):
            return self.known(kind, given.items.reshape([int(n or 0) for n in numbers]), is_float=given.is_float)
        return Fact(kind, tuple(wanted), None, given.sample, given.is_float, given.is_same)

    def _quotient(self, product: Expression, divisor: Expression) -> Expression:
        """Divide exactly. Unlike ``//``, the result has no steps."""
        return product if divisor.number == 1 else self.make.of("by", product, divisor)

    def _unsqueeze(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given, axes = inputs[0], None if inputs[1] is None else inputs[1].numbers
        assert given is not None
        if axes is None or given.shape is None:
            return Fact(kind, None, None, given.sample, given.is_float, given.is_same)
        if given.items is not None:
            return self.known(kind, np.expand_dims(given.items, tuple(axes)), is_float=given.is_float)
        rank = len(given.shape) + len(axes)
        at, rest = {axis % rank for axis in axes}, iter(given.shape)
        shape = tuple(self.make.number(1) if axis in at else next(rest) for axis in range(rank))
        return Fact(kind, shape, None, given.last, given.is_float, given.is_same)

    def _squeeze(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given, axes = inputs[0], inputs[1].numbers if len(inputs) > 1 and inputs[1] is not None else None
        assert given is not None
        if given.items is not None:
            items = given.items.squeeze(None if axes is None else tuple(axes))
            return self.known(kind, _as_items(items), is_float=given.is_float)
        shape = None
        if given.shape is not None and axes is not None:
            at = {axis % len(given.shape) for axis in axes}
            shape = tuple(size for axis, size in enumerate(given.shape) if axis not in at)
        return Fact(kind, shape, None, given.last, given.is_float, given.is_same)

    def _transpose(self, node: ir.Node, inputs: Facts, kind: Kind) -> Fact:
        given = inputs[0]
        assert given is not None
        if given.shape is None:
            return Fact(kind, None, None, given.sample, given.is_float, given.is_same)
        order = list(node.attributes.get_ints("perm", ()) if "perm" in node.attributes else ())
        order = order or list(range(len(given.shape)))[::-1]
        items = None if given.items is None else given.items.transpose(order)
        return Fact(kind, tuple(given.shape[i] for i in order), items, given.last, given.is_float, given.is_same)


def _vector(items: Sequence[Expression]) -> Items:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _scalar(item: Expression) -> Items:
    array = np.empty((), dtype=object)
    array[()] = item
    return array


def _as_items(taken: Any) -> Items:
    return taken if isinstance(taken, np.ndarray) else _scalar(taken)


def _each(change: Callable[[Expression], Expression], items: Items) -> Items:
    changed = np.empty(items.shape, dtype=object)
    for index in np.ndindex(items.shape):
        changed[index] = change(items.item(*index))
    return changed


def _is_one(fact: Fact) -> bool:
    return fact.items is not None and fact.items.size == 1


def _sizes(fact: Fact | None) -> Shape | None:
    """Return a tensor of sizes as a shape, or None if its elements are unknown."""
    return None if fact is None or fact.items is None else tuple(fact.items.reshape(-1))


def _listed(inputs: Facts, place: int) -> list[Expression] | None:
    fact = inputs[place] if place < len(inputs) else None
    return None if fact is None or fact.items is None else list(fact.items.reshape(-1))


def _cut(start: Expression, end: Expression, step: int) -> slice | None:
    if start.number is None or end.number is None or not step:
        return None
    return slice(int(start.number), int(end.number) if abs(end.number) < _TO_THE_END else None, step)
