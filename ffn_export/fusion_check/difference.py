"""Compare tensors of two graphs, and define the tolerance."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.drawing import is_floating
from ffn_export.core.fills import scales
from ffn_export.core.node_graphs import graphs_of
from ffn_export.core.types import Array

# Largest difference of one site, relative to the largest number of its tensor, by the coarsest dtype that the
# model computes in. Fills, such as -1e9, are judged apart: at their scale no other difference shows. Both graphs get
# the same inputs for each site, so it covers the rounding of that site alone: about 16 units in the last place of the
# half precisions, and 170 of float32, whose sums over wide rows are the longest. An erf GELU written as its tanh
# approximation is off by 1.2e-4, a wrong epsilon of a norm by more.
TOLERANCE = {
    ir.DataType.DOUBLE: 1e-12,
    ir.DataType.FLOAT: 2e-5,
    ir.DataType.FLOAT16: 1.6e-2,
    ir.DataType.BFLOAT16: 0.125,
}
# In the whole graph, each site passes its rounding on to the next. A difference of more than half of the largest number
# is never accepted.
WHOLE_GRAPH = 50
MOST = 0.5
# Below this scale, a tensor holds only the rounding of numbers that cancel.
_SMALLEST_SCALE = 1e-6
# A number that overflows in the model is at least this share of the largest that does not.
_OVERFLOWN = 0.5


@dataclass(frozen=True)
class Difference:
    """Difference of two tensors: relative if both have numbers, else a problem in words."""

    relative: float
    problem: str | None = None

    def words(self) -> str:
        """Return the difference in words."""
        return self.problem or f"it differs by {self.relative:.1e} of its largest number"


def tolerance_of(model: ir.Model) -> float:
    """Return a tolerance that holds for every site of the model."""
    dtypes = {value.dtype for node in model.graph.all_nodes() for value in node.outputs}
    dtypes |= {value.dtype for graph in model.graphs() for value in (*graph.inputs, *graph.initializers.values())}
    return _coarsest(dtypes)


def tolerances_at(model: ir.Model, given: Collection[str], whole: float) -> dict[str, float]:
    """Return the tolerance of each value of a graph, by the dtypes of the nodes since the given values.

    Args:
        model: Model with its nodes in topological order.
        given: Names of values that are fed, so that they carry no rounding.
        whole: Tolerance of a value with an unknown dtype, or of a node with a body.
    """
    found: dict[str, float] = {}
    for node in model.graph:
        read = (str(value.name) for value in node.inputs if value is not None)
        before = max((found[name] for name in read if name in found and name not in given), default=0.0)
        is_told = node.op_identifier() not in model.functions and not any(graphs_of(node))
        for value in node.outputs:
            known = is_told and value.dtype is not None
            found[str(value.name)] = max(before, _coarsest({value.dtype})) if known else whole
    return found


def _coarsest(dtypes: Collection[ir.DataType | None]) -> float:
    known = [TOLERANCE[dtype] for dtype in dtypes if dtype in TOLERANCE]
    return max(known, default=TOLERANCE[ir.DataType.FLOAT])


def difference(expected: Array, actual: Array, *, integers: bool = False) -> Difference:
    """Compare a tensor with the original model's.

    Shapes and dtypes must be equal. Numbers are compared only where the original ones are finite: a sum that
    overflows in half precision may not overflow inside a fused operator. What then stands for an infinity is as large
    as any number of the tensor, and has its sign. Integers and booleans must be equal only if ``integers`` is set. The
    index of the larger of two nearly equal numbers depends on rounding, and these numbers are compared themselves.
    """
    if actual.dtype != expected.dtype:
        return Difference(np.inf, f"its dtype is {actual.dtype} instead of {expected.dtype}")
    if actual.shape != expected.shape:
        return Difference(np.inf, f"its shape is {list(actual.shape)} instead of {list(expected.shape)}")
    if not is_floating(expected):
        unequal = integers and not np.array_equal(actual, expected)
        return Difference(np.inf, "its integers differ") if unequal else Difference(0.0)
    wide, other = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(wide)
    if not np.isfinite(other[finite]).all():
        return Difference(np.inf, "it has NaN or infinity where the model has none")
    beside = scales(wide)
    if _loses_infinity(wide, other, beside[0][1]):
        return Difference(np.inf, "it has numbers where the model has infinity")
    apart = ((float(np.abs(wide[at] - other[at]).max(initial=0.0)), scale) for at, scale in beside)
    return Difference(max(largest / max(scale, _SMALLEST_SCALE) for largest, scale in apart))


def _loses_infinity(expected: Array, actual: Array, scale: float) -> bool:
    """Whether a number of the usual size stands where the model has an infinity, as without a mask of -inf."""
    lost = np.isinf(expected) & ~np.isnan(actual) & (actual != expected)
    return bool((lost & ((np.sign(actual) != np.sign(expected)) | (np.abs(actual) < _OVERFLOWN * scale))).any())
