"""Read constants of a graph, and compare them with expected numbers.

A constant is a value that no caller can change. An initializer that is also a graph input can be overridden, so it is
no constant. A constant equals a number if it is that number rounded to its dtype.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from ffn_export.core.constant_tensors import constant_tensor
from ffn_export.core.strict import expose_own
from ffn_export.core.words import words
from ffn_export.fusion.memory import remembered
from ffn_export.fusion.views import input_at, opset_of, producer


def tensor_of(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of a constant without reading its data; None for any other value."""
    if value is None or value.is_graph_input():
        return None
    node = value.producer()
    return constant_tensor(value) if node is None or node.op_identifier() == ("", "Constant", "") else None


def is_constant(value: ir.Value | None) -> bool:
    """Whether the value is fixed: a Constant node's output, or an initializer that is not an input."""
    return tensor_of(value) is not None


def integers(value: ir.Value | None) -> tuple[int, ...] | None:
    """Return a constant of integers, such as axes, flattened; None for any other value.

    A small expression of constants and known sizes counts as constant, for example axes computed from a rank.
    """
    tensor = tensor_of(value)
    if tensor is not None and not tensor.dtype.is_integer():
        return None
    array = evaluate(value) if tensor is None else _read(tensor)
    if array is None or array.dtype.kind not in "iu":
        return None
    return tuple(int(number) for number in array.reshape(-1))


@remembered
def number(value: ir.Value | None) -> float | None:
    """Return a numeric constant of one element and any rank as a float, or None.

    A small expression of constants counts as constant. Casts are carried out, with their rounding to half precision or
    to an integer.
    """
    source = tensor_of(_uncast(value))
    # Checked before the data is read: weights may be gigabytes of external data.
    if source is not None and not (source.size == 1 and _is_numeric(source.dtype)):
        return None
    array = evaluate(value)
    if array is None or array.size != 1 or not _is_numeric(ir.DataType.from_numpy(array.dtype)):
        return None
    return float(array.reshape(()).astype(np.float64))


@remembered
def rank(value: ir.Value) -> int:
    """Return the rank of a constant, also if the graph does not state its shape."""
    if value.shape is not None:
        return len(value.shape)
    array = evaluate(value)
    return 0 if array is None else array.ndim


def is_overridable_number(value: ir.Value | None) -> bool:
    """Whether a value is one number with a default that the caller may override."""
    if value is None or not value.is_graph_input() or not value.is_initializer() or value.shape is None:
        return False
    return all(size == 1 for size in value.shape)


def relative_rounding(value: ir.Value | None) -> float:
    """Return the largest relative rounding error of a constant.

    It is half a unit in the last place of its dtype, and one of float32, in which many programs compute a constant
    before they round it further. A constant that was cast up from half precision gets no extra error: the graph
    computes with more digits than it has.
    """
    dtype = ir.DataType.FLOAT if value is None or value.dtype is None else value.dtype
    own = _epsilon(dtype) / 2 if dtype.is_floating_point() else 0.0
    return own * max(1, len(_expression(value))) + _epsilon(ir.DataType.FLOAT)


def _expression(value: ir.Value | None) -> set[ir.Node]:
    """Return the nodes of a small expression of constants, each of which rounds."""
    found: set[ir.Node] = set()
    waiting = [value]
    while waiting and len(found) < _LARGEST_EXPRESSION:
        each = waiting.pop()
        node = None if each is None or is_constant(each) else each.producer()
        if node is not None and node not in found:
            found.add(node)
            waiting += node.inputs
    return found


def is_exact(expected: float) -> bool:
    """Whether every floating-point dtype of networks holds the number exactly."""
    with np.errstate(over="ignore"):
        is_half = float(np.float16(expected)) == expected
    return is_half and math.isfinite(expected) and expected * 8 == int(expected * 8)


def rounding(number: float, dtype: ir.DataType) -> float:
    """Return the largest rounding error of ``number`` in ``dtype``; 0 if it is exact.

    It is half a unit in the last place, and one of float32, in which many programs compute a constant before they round
    it further.
    """
    if not dtype.is_floating_point():
        return 0.0
    with np.errstate(over="ignore"):
        nearest = np.asarray(number).astype(dtype.numpy())
    if float(nearest) == number:
        return 0.0
    half = float(np.abs(np.spacing(nearest).astype(np.float64))) / 2
    return half + float(np.spacing(np.float32(abs(number))))


_FOLDED = words(
    "Add Sub Mul Div Neg Cast Identity Transpose Reshape Squeeze Unsqueeze Flatten Expand Sqrt Reciprocal Pow Range"
)
_BROADCAST = frozenset({"Add", "Sub", "Mul", "Div", "Pow"})
_FOLDED_SIZE = 1 << 20
_LARGEST_EXPRESSION = 6
_REMEMBERED_SIZE = 64
_MEMORY = "ffn_export.evaluated"  # key of a node's last result and the inputs of it


@remembered
def evaluate(value: ir.Value | None, depth: int = 6) -> np.ndarray[Any, Any] | None:
    """Return the value of a small expression of constants, such as the ``1 + w`` of a scale, or None.

    ONNX's reference evaluator computes it node by node, in the dtypes of the graph.
    """
    return _evaluate(value, depth, {})


def _evaluate(
    value: ir.Value | None, depth: int, seen: dict[tuple[ir.Value, int], np.ndarray[Any, Any] | None]
) -> np.ndarray[Any, Any] | None:
    """Evaluate each value once, even if an expression reads it many times."""
    tensor = tensor_of(value)
    if tensor is not None:
        return _read(tensor) if tensor.size <= _FOLDED_SIZE else None
    node = None if value is None else value.producer()
    if node is not None and node.op_identifier() == ("", "Size", "") and len(node.inputs) == 1:
        return _size_of(node.inputs[0])
    if value is None or node is None or node.domain != "" or node.op_type not in _FOLDED:
        return None
    if depth == 0 or not node.inputs:
        return None
    if (value, depth) not in seen:
        known: list[np.ndarray[Any, Any]] = []
        for each in node.inputs:
            computed = _evaluate(each, depth - 1, seen)
            if computed is None:
                break
            known.append(computed)
        seen[value, depth] = _from_inputs(node, known) if len(known) == len(node.inputs) else None
    return seen[value, depth]


def _from_inputs(node: ir.Node, inputs: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any] | None:
    """Compute a node, or reuse its last result if the inputs are the same."""
    if _size(node, inputs) > _FOLDED_SIZE:  # checked before it is computed: a mask may take gigabytes
        return None
    if any(each.size > _REMEMBERED_SIZE or each.dtype.hasobject for each in inputs):
        return _result(node, inputs)
    asked = tuple(node.attributes.values()), [(each.dtype, each.shape, each.tobytes()) for each in inputs]
    if asked == node.meta.get(_MEMORY, (None, None))[0]:
        remembered: np.ndarray[Any, Any] | None = node.meta[_MEMORY][1]
        return remembered
    result = _result(node, inputs)
    if result is None or result.size <= _REMEMBERED_SIZE:
        node.meta[_MEMORY] = (asked, result)
    return result


def _result(node: ir.Node, inputs: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any] | None:
    try:
        result: np.ndarray[Any, Any] = _computed(node, inputs)
    except Exception as error:  # noqa: BLE001 - a node that cannot be computed is no constant
        expose_own(error)
        return None
    return result if result.size <= _FOLDED_SIZE else None


def _size_of(value: ir.Value | None) -> np.ndarray[Any, Any] | None:
    """Return the number of elements of a value if all its sizes are known. For a Shape's result it is the rank."""
    sizes = [None] if value is None or value.shape is None else list(value.shape)
    known = [size for size in sizes if isinstance(size, int)]
    count = math.prod(known)
    return np.asarray(count, np.int64) if len(known) == len(sizes) and count < 2**63 else None


def _size(node: ir.Node, inputs: list[np.ndarray[Any, Any]]) -> int:
    """Return the largest possible number of elements of a folded node's result."""
    shapes = [array.shape for array in inputs]
    if node.op_type == "Range" and len(inputs) == 3:
        try:
            start, limit, delta = (float(array.reshape(())) for array in inputs)
            return math.ceil(abs((limit - start) / delta))
        except (ValueError, TypeError, ArithmeticError):  # no valid node
            return _FOLDED_SIZE + 1
    if node.op_type == "Expand" and len(inputs) > 1:
        shapes[1] = tuple(int(size) for size in inputs[1].reshape(-1))
    elif node.op_type not in _BROADCAST:
        return inputs[0].size
    try:
        return math.prod(np.broadcast_shapes(*shapes))
    except ValueError:  # no valid node
        return 0


def is_fixed(value: ir.Value | None) -> bool:
    """Whether a value is a constant, possibly transposed, reshaped or cast by nodes."""
    for _ in range(6):
        if is_constant(value):
            return True
        value = input_at(producer(value, *_LAYOUT), 0)
    return False


_LAYOUT = frozenset({"Transpose", "Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "DequantizeLinear"})


def _computed(node: ir.Node, inputs: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    import onnx
    from onnx.reference import ReferenceEvaluator

    feeds = {f"i{index}": array for index, array in enumerate(inputs)}
    given, made = [ir.Value(name=name) for name in feeds], ir.Value(name="o")
    alone = ir.to_proto(ir.Node("", node.op_type, given, node.attributes.values(), outputs=[made]))
    imports = [onnx.helper.make_opsetid("", opset_of(node) or 18)]
    function = onnx.helper.make_function("", "constant", list(feeds), ["o"], [alone], imports)
    result = ReferenceEvaluator(function).run(None, feeds, attributes={})
    return np.asarray(next(iter(result)))


def _read(tensor: ir.TensorProtocol) -> np.ndarray[Any, Any] | None:
    """Return the data of a constant; None if it cannot be read, such as from a missing file."""
    try:
        return tensor.numpy()
    except (OSError, ValueError):
        return None


def _epsilon(dtype: ir.DataType) -> float:
    return float(ml_dtypes.finfo(dtype.numpy()).eps)  # type: ignore[no-untyped-call]


def _is_numeric(dtype: ir.DataType) -> bool:
    return dtype.is_floating_point() or dtype.is_integer()


def _uncast(value: ir.Value | None) -> ir.Value | None:
    while (node := producer(value, "Cast", "Identity")) is not None and len(node.inputs) == 1:
        value = node.inputs[0]
    return value
