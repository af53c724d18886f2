"""Operators that are known to be less accurate than the nodes that they replace, most of all on ill-conditioned rows.

A graph that holds one may leave the bound that the plain form keeps: it is warned, with the factor, as far as the
operator's own sums explain the error, or on ill-conditioned rows their conditioning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # results know these operators, and reports load results only
    import onnx_ir as ir

_IN_ORDER = "is less accurate than the plain nodes: it sums a row in float32, one element after the other"

# ``domain::Operator`` -> why. Measured with onnxruntime 1.31 on one CPU in float32, as multiples of what is allowed,
# on 64 rows with a mean of 1,000 times their spread, at widths of 12, 100, 512, 1,024 and 4,096: 0.3, 0.6, 1.6, 2.4
# and 3.9 for the first, up to 1.6 for the second, up to 0.36 for the plain nodes. In half precision it is the plain
# nodes that are less accurate.
IMPRECISE: Mapping[str, str] = {
    "com.microsoft::SkipLayerNormalization": _IN_ORDER,
    "com.microsoft::SkipSimplifiedLayerNormalization": _IN_ORDER,
}

# Whose kernels they are. ONNX's evaluator has NumPy's, which sum in pairs: nothing excuses it.
_RUNTIMES = frozenset({"ort-cpu", "ort-cuda"})


def imprecise_operators(model: ir.Model, runtime: str) -> tuple[str, ...]:
    """Return which of them a runtime meets in a model, as ``domain::Operator``, sorted."""
    return imprecise_among(model.graph.all_nodes(), runtime)


def imprecise_among(nodes: Iterable[ir.Node], runtime: str) -> tuple[str, ...]:
    """Return which of them a runtime meets in nodes, as ``domain::Operator``, sorted."""
    if runtime not in _RUNTIMES:
        return ()
    present = {f"{node.domain}::{node.op_type}" for node in nodes}
    return tuple(sorted(present & IMPRECISE.keys()))
