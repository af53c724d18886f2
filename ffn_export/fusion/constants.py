"""Reading constants out of a graph, strictly.

A constant is a value that no caller can change: an initialiser that is also a graph input can be
overridden and is none. A number equals the true one when it is that number rounded to its dtype.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir


def is_constant(value: ir.Value | None) -> bool:
    """Whether the value is fixed: a Constant node's output, or an initialiser that is not an input."""
    return _tensor(value) is not None


def integers(value: ir.Value | None) -> tuple[int, ...] | None:
    """Return a constant of integers, such as axes, flattened; None where it is another thing."""
    tensor = _tensor(value)
    if tensor is None or not tensor.dtype.is_integer():
        return None
    return tuple(int(number) for number in tensor.numpy().reshape(-1))


def scalar(value: ir.Value | None) -> float | None:
    """Return a one-element numeric constant of rank 0 or 1 as a float, or None."""
    tensor = _tensor(value)
    # Asked before the data is read: weights may be gigabytes of external data.
    if tensor is None or tensor.size != 1 or len(tensor.shape) > 1:
        return None
    if not (tensor.dtype.is_floating_point() or tensor.dtype.is_integer()):
        return None
    return float(tensor.numpy().reshape(()).astype(np.float64))


def equals(value: ir.Value | None, expected: float) -> bool:
    """Whether a one-element constant is ``expected``, up to the rounding to its own dtype."""
    actual, tensor = scalar(value), _tensor(value)
    if actual is None or tensor is None:
        return False
    return abs(actual - expected) <= rounding(expected, tensor.dtype)


def rounding(number: float, dtype: ir.DataType) -> float:
    """Return how far from ``number`` its nearest value of ``dtype`` may be; 0 where it is one.

    Half a unit in the last place, and one of float32: that is where many programs compute a constant
    before they round it further.
    """
    if not dtype.is_floating_point():
        return 0.0
    nearest = np.asarray(number).astype(dtype.numpy())
    if float(nearest) == number:
        return 0.0
    half = float(np.abs(np.spacing(nearest).astype(np.float64))) / 2
    return half + float(np.spacing(np.float32(abs(number))))


def may_widen(constant: ir.Value | None, x: ir.Value) -> bool:
    """Whether broadcasting with a constant could give ``x`` more axes than it has."""
    tensor = _tensor(constant)
    rank = 0 if tensor is None else len(tensor.shape)
    return rank > 0 and (x.shape is None or len(x.shape) < rank)


def describe(value: ir.Value | None) -> str:
    """Return how a report names a value: its number where it is one, else its name."""
    number = scalar(value)
    return f"{number:.9g}" if number is not None else repr(value.name if value is not None else None)


def _tensor(value: ir.Value | None) -> ir.TensorProtocol | None:
    if value is None or value.is_graph_input():
        return None
    node = value.producer()
    if node is not None:
        # A Constant is taken only in the form that the standard gives it: onnx-ir raises for any other.
        usual = node.op_identifier() == ("", "Constant", "") and len(node.outputs) == len(node.attributes) == 1
        if not usual:
            return None
    return ir.convenience.get_const_tensor(value)
