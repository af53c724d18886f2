"""Find the thresholds of a graph: comparisons, limits, kinks, and casts to a smaller range."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx_ir as ir

from ffn_export.core.node_graphs import graphs_of
from ffn_export.core.words import words
from ffn_export.fusion import constants
from ffn_export.fusion.views import float_of, input_at, rank

# Larger limits are skipped. They stand for infinity, which is a separate kind of values.
_LARGEST = 1e37
# Operators whose output depends only on sizes.
_SUMS = frozenset({"CumSum", "ReduceL1", "ReduceL2", "ReduceSum", "ReduceSumSquare"})
_OF_SIZES = frozenset({"Shape", "Size"})


@dataclass(frozen=True)
class Threshold:
    """A comparison of a value of the graph with a number or another value.

    Attributes:
        node: Name of the node in reports.
        value: Name of the value.
        limit: Number, or name of the value, that it is compared with.
        inputs: Names of the graph's inputs that the value is computed from.
        asks_equal: Whether the node tests for equality, not for order.
        equal_is_above: Whether the node treats equal numbers like those above; None if they are neither.
        is_kink: Whether the node is a function that only bends or turns at the number, or compares two values that
            are both computed from inputs. Sides that are not reached are then not reported.
        sums: Whether the value comes from a sum over an axis whose size is symbolic, and so grows with that size.
        of_several: Whether it is an integer that is computed from several numbers of the inputs, such as a difference.
    """

    node: str
    value: str
    limit: float | str
    inputs: frozenset[str]
    asks_equal: bool = False
    equal_is_above: bool | None = None
    is_kink: bool = False
    sums: bool = False
    of_several: bool = False


_Found = Iterator[tuple[ir.Value | None, ir.Value | float | None]]


def find(model: ir.Model) -> list[Threshold]:
    """Return each threshold on a value that depends on the numbers in the inputs, once.

    Args:
        model: A graph without functions and branches. Loop bodies are not searched.
    """
    data, sums = data_of(model), _sums(model)
    several = _of_several(model, data)
    found = dict[Threshold, None]()
    for node in model.graph:
        finder = _FINDERS.get(node.op_type) if node.domain == "" else None
        for first, second in () if finder is None else finder(node):
            turned = first not in data and isinstance(second, ir.Value)
            value, limit = (second, first) if turned else (first, second)
            if limit is None or not isinstance(value, ir.Value) or value.dtype in _WITHOUT_ORDER:
                continue
            if value not in data or not _is_met_at(limit):
                continue
            of_limit = data.get(limit, frozenset()) if isinstance(limit, ir.Value) else frozenset()
            above = _EQUAL_IS_ABOVE.get(node.op_type)
            threshold = Threshold(
                f"node {node.name!r} ({node.op_type})",
                str(value.name),
                _number_or_name(limit),
                data[value] | of_limit,
                asks_equal=node.op_type in _ASK_EQUAL or _is_boolean(node),
                equal_is_above=above if above is None else above != turned,
                is_kink=bool(of_limit) or node.op_type in _KINKS,
                sums=value in sums,
                of_several=value in several,
            )
            found[threshold] = None
    return list(found)


def data_of(model: ir.Model) -> dict[ir.Value, frozenset[str]]:
    """Return value -> inputs whose numbers it depends on. Values that depend only on sizes are left out."""
    inputs = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
    found = {value: frozenset({str(value.name)}) for value in inputs}
    for node in model.graph:
        if node.domain == "" and node.op_type in _OF_SIZES:
            continue
        inner = (value for body in graphs_of(node) for each in body.all_nodes() for value in each.inputs)
        read = [value for value in (*node.inputs, *inner) if value in found]
        if read:
            names = frozenset().union(*(found[value] for value in read if value is not None))
            found |= dict.fromkeys(node.outputs, names)
    return found


def _sums(model: ir.Model) -> set[ir.Value]:
    """Return the values that are computed from a sum over an axis whose size is symbolic."""
    found: set[ir.Value] = set()
    for node in model.graph:
        if _is_of_symbolic_axis(node) or any(value in found for value in node.inputs):
            found.update(node.outputs)
    return found


def _of_several(model: ir.Model, data: Mapping[ir.Value, frozenset[str]]) -> set[ir.Value]:
    """Return the integers that are computed from two values which depend on the numbers in the inputs.

    Floating-point numbers are embeddings of integers mostly, and pass the limits of a graph rarely on purpose.
    """
    found: set[ir.Value] = set()
    for node in model.graph:
        read = {value for value in node.inputs if value in data}
        if len(read) > 1 or read & found:
            found.update(each for each in node.outputs if each in data and _is_of_integers(each))
    return found


def _is_of_integers(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_integer()


def _is_of_symbolic_axis(node: ir.Node) -> bool:
    if node.domain != "" or node.op_type not in _SUMS or node.inputs[0] is None:
        return False
    shape, axes = node.inputs[0].shape, constants.integers(input_at(node, 1))
    if shape is None:
        return axes != (-1,)  # whatever is last are mostly features
    summed = range(len(shape)) if axes is None else [int(axis) for axis in axes]
    return any(not isinstance(shape[axis], int) for axis in summed if -len(shape) <= axis < len(shape))


def _number_or_name(limit: ir.Value | float) -> float | str:
    number = constants.number(limit) if isinstance(limit, ir.Value) else limit
    return str(limit.name) if number is None and isinstance(limit, ir.Value) else float(number or 0.0)


def _is_met_at(limit: ir.Value | float) -> bool:
    number = constants.number(limit) if isinstance(limit, ir.Value) else limit
    return number is None or abs(number) < _LARGEST


def _compared(node: ir.Node) -> _Found:
    yield input_at(node, 0), input_at(node, 1)


def _against_first(node: ir.Node) -> _Found:
    """``Max`` and ``Min``: compare the first input with each other one."""
    for other in node.inputs[1:]:
        yield node.inputs[0], other


def _clipped(node: ir.Node) -> _Found:
    yield from ((input_at(node, 0), input_at(node, place)) for place in (1, 2))
    yield from ((node.inputs[0], float_of(node, name, np.inf)) for name in ("min", "max"))  # before opset 11


def _at(*numbers: float) -> Callable[[ir.Node], _Found]:
    return lambda node: ((node.inputs[0], number) for number in numbers)


def _hard_sigmoid(node: ir.Node) -> _Found:
    slope, height = float_of(node, "alpha", 0.2), float_of(node, "beta", 0.5)
    yield from ((node.inputs[0], end) for end in ((-height / slope, (1 - height) / slope) if slope else ()))


def _shrunk(node: ir.Node) -> _Found:
    width = float_of(node, "lambd", 0.5)
    yield from ((node.inputs[0], end) for end in (-width, width))


def _above_alpha(node: ir.Node) -> _Found:
    yield node.inputs[0], float_of(node, "alpha", 1.0)


def _remainder(node: ir.Node) -> _Found:
    """``Mod`` leaves numbers smaller than the divisor unchanged."""
    yield input_at(node, 0), input_at(node, 1)
    divisor = constants.number(input_at(node, 1))
    yield input_at(node, 0), None if divisor is None else -divisor


def _cast(node: ir.Node) -> _Found:
    to, value = ir.DataType(node.attributes.get_int("to", ir.DataType.FLOAT.value)), node.inputs[0]
    if value is None or ir.DataType.STRING in (to, value.dtype):
        return
    if to == ir.DataType.BOOL:
        yield value, 0.0
    elif to.is_integer():
        limits = ends(to) if to.bitwidth <= 16 else ()  # overflow of wider integers is undefined in PyTorch, too
        is_whole = value.dtype is not None and value.dtype.is_integer()
        yield from ((value, end) for end in (*limits, *(() if is_whole else (-1.0, 1.0))))
    elif to.is_floating_point() and to.bitwidth < (32 if value.dtype is None else value.dtype.bitwidth):
        # If an input or output of the model has this dtype, PyTorch rounds to it as well.
        graph = node.graph
        own = () if graph is None else (*graph.inputs, *graph.outputs)
        if all(each.dtype != to for each in own):
            yield from ((value, end) for end in ends(to))


def _of_table(node: ir.Node) -> _Found:
    """Compare the output of an integer table with its indices, to find the indices that the table changes."""
    table = input_at(node, 0)
    integers = constants.integers(table)
    if integers is not None and rank(table) == 1:
        yield node.outputs[0], input_at(node, 1)


def _quantized(node: ir.Node) -> _Found:
    scale, zero = constants.number(input_at(node, 1)), constants.number(input_at(node, 2)) or 0.0
    dtype = node.outputs[0].dtype
    if scale is not None and dtype is not None and dtype.is_integer():
        yield from ((node.inputs[0], scale * (end - zero)) for end in ends(dtype))


def ends(dtype: ir.DataType) -> tuple[float, float]:
    """Return the smallest and largest finite number of a dtype."""
    info = ml_dtypes.iinfo(dtype.numpy()) if dtype.is_integer() else ml_dtypes.finfo(dtype.numpy())  # type: ignore[no-untyped-call]
    return float(info.min), float(info.max)


def _is_boolean(node: ir.Node) -> bool:
    return node.op_type == "Cast" and node.attributes.get_int("to", 0) == ir.DataType.BOOL.value


_WITHOUT_ORDER = frozenset({ir.DataType.BOOL, ir.DataType.STRING})
_ASK_EQUAL = frozenset({"Equal", "NonZero"})
_EQUAL_IS_ABOVE = {"Greater": False, "GreaterOrEqual": True, "Less": True, "LessOrEqual": False}
_KINKS = words("Abs Celu Ceil Elu Erf Floor LeakyRelu PRelu Relu Round Selu Sigmoid Sign Tanh")
_FINDERS: Mapping[str, Callable[[ir.Node], _Found]] = {
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _compared),
    **dict.fromkeys(("Max", "Min"), _against_first),
    **dict.fromkeys(
        ("Abs", "Celu", "Elu", "Erf", "LeakyRelu", "NonZero", "PRelu", "Relu", "Selu", "Sigmoid", "Sign", "Tanh"),
        _at(0.0),
    ),
    "Cast": _cast,
    "Ceil": _at(-1.0, 0.0),
    "Clip": _clipped,
    "Floor": _at(0.0, 1.0),
    "Gather": _of_table,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _at(-3.0, 3.0),
    "Mod": _remainder,
    "QuantizeLinear": _quantized,
    "Round": _at(-0.5, 0.5),
    "Shrink": _shrunk,
    "ThresholdedRelu": _above_alpha,
}
