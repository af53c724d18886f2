"""Operators known to be less accurate than the nodes that they replace, most of all on ill-conditioned rows.

A graph with one of them may exceed a bound that the decomposed operator meets. The case is warned, with the factor,
if the operator's summation or, on ill-conditioned rows, the conditioning explains the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # results know these operators, and reports load results only
    import onnx_ir as ir

    from ffn_export.runtimes.base import Runtime

_IN_ORDER = "is less accurate than the plain nodes: it sums a row in float32, one element after the other"

# ``domain::Operator`` -> reason. Measured with onnxruntime 1.31 on one CPU in float32, on 64 rows with a mean of 1,000
# times their spread, as multiples of the bound. First operator: 0.3, 0.6, 1.6, 2.4 and 3.9 at widths of 12, 100, 512,
# 1,024 and 4,096. Second operator: up to 1.6. Plain nodes: up to 0.36. In half precision the plain nodes are less
# accurate.
IMPRECISE: Mapping[str, str] = {
    "com.microsoft::SkipLayerNormalization": _IN_ORDER,
    "com.microsoft::SkipSimplifiedLayerNormalization": _IN_ORDER,
}


def imprecise_operators(nodes: Iterable[ir.Node], runtime: Runtime) -> tuple[str, ...]:
    """Return the imprecise operators that a runtime executes among nodes, as sorted ``domain::Operator``.

    ONNX's evaluator uses NumPy, which sums in pairs, so it gets no excuse.
    """
    if not runtime.has_ort_kernels:
        return ()
    present = {f"{node.domain}::{node.op_type}" for node in nodes}
    return tuple(sorted(present & IMPRECISE.keys()))
