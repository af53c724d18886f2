"""Operators that ONNX's reference evaluator computes otherwise than the standard says.

Some of its own fall back to float32 on the way, one takes the first column for all, and one joins what it has to stack.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.reference.op_run import OpRun
from onnx.reference.ops._op import OpRunUnaryNum
from onnx.reference.ops.op_loop import Loop as EvaluatorsLoop
from scipy import special

from ffn_export.core.types import Array


class Erf(OpRunUnaryNum):
    """The error function in the dtype that it is given; the evaluator's own goes through float32."""

    def _run(self, x: Array) -> tuple[Array]:
        return (special.erf(x).astype(x.dtype),)


class Gelu(OpRun):
    """GELU with constants of the dtype that it is given; the body of the standard has them in float32."""

    op_domain = ""

    def _run(self, x: Array, approximate: str = "none") -> tuple[Array]:
        if approximate == "tanh":
            gate = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
        else:
            gate = special.erf(x * math.sqrt(0.5)).astype(x.dtype)
        return ((0.5 * x * (1.0 + gate)).astype(x.dtype),)


class GatherElements(OpRun):
    """Elements along an axis; the evaluator's own takes no more than 32 rows, or of a matrix one index a row."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        own = tuple(slice(None) if n == axis % data.ndim else slice(size) for n, size in enumerate(indices.shape))
        return (np.take_along_axis(data[own], indices, axis),)


class Loop(EvaluatorsLoop):
    """A loop that runs where no condition is given, and stacks what it gathers, of no iterations too.

    The evaluator's own takes a missing condition for false, puts the rows of all iterations under one another, and
    fails where there are none.
    """

    op_domain = ""
    body: Any  # an evaluator, and the call of it: set by the base class
    _run_body: Any

    def _run(
        self,
        M: Any,  # noqa: N803 - the standard's own name of the number of iterations
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
    """Return an array of no elements, of a type and with one axis more; a size that is not known is 0."""
    sizes = [axis.dim_value for axis in tensor_type.shape.dim]
    return np.empty([0, *sizes], tensor_dtype_to_np_dtype(tensor_type.elem_type))


OPERATORS: tuple[type[OpRun], ...] = (Erf, Gelu, GatherElements, Loop)
