"""The model that native kernels compute in a precision: its channels smoothed, and some nodes more precise."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from ffn_export.calibration.node_smoothing import smoothed
from ffn_export.calibration.precise_nodes import HIGHER, with_precisions
from ffn_export.core.types import Array
from ffn_export.runtimes.ort_native import INT8


def in_precision(
    model: ir.Model, precision: str | None, raised: Collection[str], feeds: Mapping[str, Array], threads: int
) -> ir.Model:
    """Return a model in nodes of the contract as it is computed in a precision; the model itself if nothing changes.

    Args:
        model: The model; it is not modified.
        precision: The precision of the session; None without native kernels.
        raised: Names of nodes that take the next precision.
        feeds: Inputs on which channels are measured for 8-bit integers.
        threads: Intra-op threads.
    """
    if precision == INT8.precision:
        model = smoothed(model, feeds, threads)
    if precision is None or not raised:
        return model
    lower = [str(node.name) for node in model.graph.all_nodes() if node.name not in raised]
    return with_precisions(model, lower, precision, HIGHER[precision])
