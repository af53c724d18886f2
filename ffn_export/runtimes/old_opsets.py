"""Operators of old opsets that ONNX's reference evaluator computes as those of the newest.

1. ``Softmax``, ``LogSoftmax`` and ``Hardmax`` before opset 13 are over all axes from theirs on, as if flattened.
2. ``BatchNormalization`` before opset 14 infers if it has one output; the evaluator mixes the mean of the batch in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx.defs import get_schema
from onnx.reference.op_run import OpRun
from scipy import special

from ffn_export.core.types import Array
from ffn_export.runtimes.half_precision import widened


def operators(opset: int) -> tuple[type[OpRun], ...]:
    """Return the operators that a graph of this opset needs."""
    found: dict[str, Callable[..., Any]] = {}
    if 0 < opset < 13:
        found |= {
            "Softmax": _flattening(lambda rows: special.softmax(rows, 1)),
            "LogSoftmax": _flattening(lambda rows: special.log_softmax(rows, 1)),
            "Hardmax": _flattening(lambda rows: np.eye(rows.shape[1])[rows.argmax(1)]),
        }
    if 0 < opset < 14:
        found["BatchNormalization"] = _for_inference
    # With the defaults of this opset: the evaluator uses the newest schema of the name.
    return tuple(
        type(name, (OpRun,), {"_run": run, "op_domain": "", "op_schema": get_schema(name, opset)})
        for name, run in found.items()
    )


def _flattening(of_rows: Callable[[Array], Any]) -> Callable[..., tuple[Array]]:
    def _run(self: OpRun, x: Array, axis: int = 1) -> tuple[Array]:
        if not x.size:
            return (x,)
        rows = widened(x).reshape(math.prod(x.shape[: axis % x.ndim]), -1)
        return (of_rows(rows).reshape(x.shape).astype(x.dtype),)

    return _run


def _for_inference(
    self: OpRun, x: Array, scale: Array, bias: Array, mean: Array, var: Array, epsilon: float = 1e-5, **_: Any
) -> tuple[Array]:
    if len(self.onnx_node.output) > 1:
        raise NotImplementedError("BatchNormalization for training")
    rows = (widened(each).reshape(-1, *(1,) * (x.ndim - 2)) for each in (scale, bias, mean, var))
    gamma, beta, centre, spread = rows
    return ((gamma * (widened(x) - centre) / np.sqrt(spread + epsilon) + beta).astype(x.dtype),)
