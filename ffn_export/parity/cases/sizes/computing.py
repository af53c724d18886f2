"""Rules of operators that compute new numbers from those of their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ffn_export.core.words import words
from ffn_export.parity.cases.sizes.facts import MOST_ITEMS, Fact, Items, Kind, Operation, Rule, is_one, mapped, vector

# Element-wise operators and the names of their expressions.
_NAMED_ALIKE = words(
    "Abs And Ceil Cos Erf Exp Floor Log Max Min Not Or Reciprocal Relu Round Sigmoid Sign Sin Sqrt Tanh Where Xor"
)
_ELEMENTWISE = {
    **{name: name.lower() for name in _NAMED_ALIKE},
    "Neg": "negative",
    "Add": "+",
    "Sum": "+",
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
}
_REDUCING = {"ReduceProd": "*", "ReduceSum": "+", "ReduceMax": "max", "ReduceMin": "min"}
_OF_BOOLEANS = frozenset({"==", "<", ">", "<=", ">=", "and", "or", "xor", "not"})


def _elementwise(op: Operation) -> Fact:
    name = _ELEMENTWISE[op.node.op_type]
    inputs = [each for each in op.inputs if each is not None]
    if len(inputs) < len(op.inputs):
        return Fact(op.kind)
    is_float = any(each.is_float for each in inputs[1:] if name == "where") or (
        name not in _OF_BOOLEANS and any(each.is_float for each in inputs)
    )
    if name == "/" and not is_float:
        name = "//"
    shape = op.broadcast([each.shape for each in inputs])
    known = [each.items for each in inputs if each.items is not None]
    if len(known) == len(inputs):
        arrays: Sequence[Items] = np.broadcast_arrays(*known)
        if arrays[0].size <= MOST_ITEMS:
            items = np.empty(arrays[0].shape, dtype=object)
            for index in np.ndindex(items.shape):
                items[index] = op.folded(name, [array.item(*index) for array in arrays])
            return op.known(items, is_float=is_float)
    samples = [each.sample for each in inputs]
    last = None if None in samples else op.folded(name, [each for each in samples if each is not None])
    return Fact(op.kind, shape, None, last, is_float, all(each.is_same or is_one(each) for each in inputs))


def _constantofshape(op: Operation) -> Fact:
    fill = op.node.attributes.get_tensor("value", None) if "value" in op.node.attributes else None
    number = op.make.number(0 if fill is None else fill.numpy().reshape(-1)[0].item())
    is_float = fill is None or fill.dtype.is_floating_point()
    shape = op.sizes(0)
    numbers = op.integers(0)
    if numbers is not None and int(np.prod(numbers)) <= MOST_ITEMS:
        items = np.empty(numbers, dtype=object)
        items.fill(number)
        return op.known(items, is_float=is_float)
    return Fact(op.kind, shape, None, number, is_float, is_same=True)


def _range(op: Operation) -> Fact:
    start, limit, step = (None if each is None else each.sample for each in op.inputs)
    if start is None or limit is None or step is None:
        return Fact(op.kind, (op.unknown("elements"),), last=op.unknown("the last"))
    is_float = any(each is not None and each.is_float for each in op.inputs)
    of = op.make.of
    count = of("max", of("int", of("ceil", of("/", of("-", limit, start), step))), op.make.number(0))
    if step.number == 1 and not is_float:
        count = of("-", limit, start)
    if count.number is not None and 0 <= count.number <= MOST_ITEMS:
        items = [of("+", start, of("*", step, op.make.number(index))) for index in range(int(count.number))]
        return op.known(vector(items), is_float=is_float)
    return Fact(op.kind, (count,), None, of("-", limit, step), is_float)


def _cast(op: Operation) -> Fact:
    given = op.inputs[0]
    assert given is not None
    to = ir.DataType(op.node.attributes.get_int("to", 1))
    name = "bool" if to == ir.DataType.BOOL else "int" if given.is_float and to.is_integer() else None
    change = (lambda e: e) if name is None else (lambda e: op.make.of(str(name), e))
    last = None if given.last is None else change(given.last)
    items = None if given.items is None else mapped(change, given.items)
    return Fact(op.kind, given.shape, items, last, to.is_floating_point(), given.is_same)


def _clip(op: Operation) -> Fact:
    given = op.inputs[0]
    assert given is not None
    last = given.sample
    for name, bound in zip(("max", "min"), (*op.inputs[1:3], None, None), strict=False):
        if bound is not None and bound.sample is not None and last is not None:
            last = op.make.of(name, last, bound.sample)
    return Fact(op.kind, given.shape, None, last, given.is_float, given.is_same)


def _softmax(op: Operation) -> Fact:
    given = op.inputs[0]
    if given is None or given.shape is None or given.kind is Kind.DATA or not given.shape:
        return Fact(op.kind, None if given is None else given.shape)
    return Fact(op.kind, given.shape, None, op.make.of("reciprocal", given.shape[-1]), is_float=True)


def _cumsum(op: Operation) -> Fact:
    given, axis = op.inputs[0], op.integers(1)
    if given is None or given.shape is None or given.sample is None or not axis:
        return Fact(op.kind, None if given is None else given.shape)
    return Fact(op.kind, given.shape, None, op.make.of("*", given.sample, given.shape[axis[0]]), given.is_float)


def _matmul(op: Operation) -> Fact:
    one, other = op.inputs[0], op.inputs[1]
    if one is None or other is None or not one.shape or not other.shape or min(len(one.shape), len(other.shape)) < 2:
        return Fact(op.kind)
    outer = op.broadcast([one.shape[:-2], other.shape[:-2]])
    shape = None if outer is None else (*outer, one.shape[-2], other.shape[-1])
    last = None
    if one.sample is not None and other.sample is not None and op.kind is not Kind.DATA:
        last = op.make.product([one.sample, other.sample, one.shape[-1]])
    return Fact(op.kind, shape, None, last, is_float=True)


def _reduce(op: Operation) -> Fact:
    given = op.inputs[0]
    assert given is not None
    listed = op.integers(1)
    if given.shape is None:
        last = given.sample if op.node.op_type != "ReduceSum" else op.unknown("a count")
        return Fact(op.kind, last=last if op.kind is Kind.SIZE else None, is_float=given.is_float)
    if listed is None:
        listed = list(op.node.attributes.get_ints("axes", ()) if "axes" in op.node.attributes else ())
    rank = len(given.shape)
    axes = {axis % rank for axis in listed or range(rank)} if rank else set()
    keep = op.node.attributes.get_int("keepdims", 1)
    one = op.make.number(1)
    shape = tuple(one if axis in axes else size for axis, size in enumerate(given.shape) if keep or axis not in axes)
    last, name = given.sample, _REDUCING.get(op.node.op_type)
    if given.items is not None and name is not None and rank == 1:
        last = op.folded(name, list(given.items)) if given.items.size else None
    elif op.node.op_type == "ReduceSum" and last is not None:
        last = op.make.product([last, *(given.shape[axis] for axis in axes)])
    elif op.node.op_type not in ("ReduceMean", "ReduceMax", "ReduceMin"):
        last = None
    if last is not None and not any(size is not one for size in shape):
        items = np.empty([1] * len(shape), dtype=object)
        items.fill(last)
        return op.known(items, is_float=given.is_float)
    return Fact(op.kind, shape, None, last, given.is_float, given.is_same)


COMPUTING: Mapping[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    "ConstantOfShape": _constantofshape,
    "Range": _range,
    "Cast": _cast,
    "Clip": _clip,
    "Softmax": _softmax,
    "CumSum": _cumsum,
    "MatMul": _matmul,
    **dict.fromkeys((*_REDUCING, "ReduceMean"), _reduce),
}
