"""Operators in which ONNX's reference evaluator deviates from the standard, corrected.

1. ``Erf`` and ``Gelu`` compute in float32.
2. ``GatherElements`` takes at most 32 rows, or one index a row of a matrix.
3. ``Loop`` concatenates its scan outputs instead of stacking them.
4. ``DynamicQuantizeLinear`` takes no empty input.
5. ``Pad`` takes no negative sizes, which remove elements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.reference.op_run import OpRun
from onnx.reference.ops._op import OpRunUnaryNum
from onnx.reference.ops.op_dynamic_quantize_linear import DynamicQuantizeLinear as EvaluatorsDynamicQuantizeLinear
from onnx.reference.ops.op_loop import Loop as EvaluatorsLoop
from scipy import special

from ffn_export.core.types import Array


class Erf(OpRunUnaryNum):
    """The error function in the dtype of the input; the evaluator's goes through float32."""

    def _run(self, x: Array) -> tuple[Array]:
        return (special.erf(x).astype(x.dtype),)


class Gelu(OpRun):
    """GELU with constants in the dtype of the input; the standard's function body has them in float32."""

    op_domain = ""

    def _run(self, x: Array, approximate: str = "none") -> tuple[Array]:
        if approximate == "tanh":
            gate = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
        else:
            gate = special.erf(x * math.sqrt(0.5)).astype(x.dtype)
        return ((0.5 * x * (1.0 + gate)).astype(x.dtype),)


class GatherElements(OpRun):
    """Elements along an axis; the evaluator's takes at most 32 rows, or one index a row of a matrix."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        own = tuple(slice(None) if n == axis % data.ndim else slice(size) for n, size in enumerate(indices.shape))
        return (np.take_along_axis(data[own], indices, axis),)


class DynamicQuantizeLinear(EvaluatorsDynamicQuantizeLinear):
    """Quantises to the range of a value and zero; the evaluator's fails where an empty value has no range."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array, ...]:
        if x.size:
            result: tuple[Array, ...] = super()._run(x)  # type: ignore[no-untyped-call]
            return result
        return np.zeros(x.shape, np.uint8), np.array(1, x.dtype), np.array(0, np.uint8)


class Pad(OpRun):
    """Elements added before and behind an axis, or removed where a size is negative, which the evaluator's refuses."""

    op_domain = ""

    def _run(
        self,
        data: Array,
        pads: Any = None,
        constant_value: Any = None,
        axes: Any = None,
        mode: Any = "constant",
        value: float = 0.0,  # before opset 11, where ``pads`` is an attribute, too
    ) -> tuple[Array]:
        sizes = np.zeros((2, data.ndim), np.int64)
        sizes[:, slice(None) if axes is None else np.asarray(axes)] = np.reshape(pads, (2, -1))
        added = np.maximum(sizes, 0).T
        number = value if constant_value is None else np.reshape(constant_value, ())
        if mode == "constant":
            return (_without(np.pad(data, added, constant_values=number), sizes).astype(data.dtype),)
        return (np.pad(_without(data, sizes), added, mode).astype(data.dtype),)


def _without(data: Array, sizes: Array) -> Array:
    """Return an array without the elements that negative sizes before and behind each axis remove."""
    removed = np.maximum(-sizes, 0)
    kept = zip(removed[0], np.maximum(data.shape - removed[1], 0), strict=True)
    return data[tuple(slice(start, end) for start, end in kept)]


class Loop(EvaluatorsLoop):
    """A loop that runs without a condition, and stacks its scan outputs, also of no iterations.

    The evaluator's takes a missing condition for false, concatenates the scan outputs, and fails without iterations.
    """

    op_domain = ""
    body: Any  # the body's evaluator, and its call: both set by the base class
    _run_body: Any

    def _run(
        self,
        M: Any,  # noqa: N803 - the standard's name of the number of iterations
        cond: Any,
        *args: Any,
        context: Any = None,
        body: Any = None,
        attributes: Any = None,
        bindings: Any = None,
    ) -> tuple[Any, ...]:
        index, going, *names = self.body.input_names
        values = {**(context or {}), **dict(zip(names, args, strict=True))}
        gathered: list[list[Array]] = [[] for _ in range(self.K)]
        state = args
        trip, goes_on = 0, cond is None or bool(cond)
        while goes_on and (M is None or trip < int(M)):
            values |= {index: np.array(trip, np.int64), going: np.array(True)}
            cond, *results = self._run_body(values, attributes=attributes, bindings=bindings)
            state = tuple(results[: self.N])
            values.update(zip(names, state, strict=True))
            for each, result in zip(gathered, results[self.N :], strict=True):
                each.append(result)
            trip, goes_on = trip + 1, bool(cond)
        types = self.body.output_types[1 + self.N :]
        return (
            *state,
            *(np.stack(each) if each else _none_of(t.tensor_type) for each, t in zip(gathered, types, strict=True)),
        )


def _none_of(tensor_type: Any) -> Array:
    """Return an empty array of a tensor type with one leading axis of size 0; an unknown size becomes 0."""
    sizes = [axis.dim_value for axis in tensor_type.shape.dim]
    return np.empty([0, *sizes], tensor_dtype_to_np_dtype(tensor_type.elem_type))


OPERATORS: tuple[type[OpRun], ...] = (Erf, Gelu, GatherElements, Loop, DynamicQuantizeLinear, Pad)
