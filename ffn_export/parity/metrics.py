"""Distance of an output from the oracle."""

from __future__ import annotations

import numpy as np

from ffn_export.exporter.drawing import Array
from ffn_export.parity.result import OutputMetrics


def compare(
    name: str, actual: Array | None, oracle: Array, baseline: Array, conditioning: float = 0.0
) -> OutputMetrics:
    """Compare one output with the oracle, beside the baseline's own distance.

    Args:
        name: Name of the output.
        actual: What the runtime gave, or None where the output is missing.
        oracle: The float64 (or integer) truth.
        baseline: PyTorch's output in the working dtype; it says which dtype and shape are right.
        conditioning: How far one rounding of the inputs moves the oracle, where the case is ill-conditioned.
    """
    if actual is None:
        return OutputMetrics(name, problem="the runtime has no such output")
    dtype = str(actual.dtype)
    if actual.shape != baseline.shape:
        return OutputMetrics(name, dtype, problem=f"shape {list(actual.shape)}, expected {list(baseline.shape)}")
    if actual.dtype != baseline.dtype:
        return OutputMetrics(name, dtype, problem=f"dtype {actual.dtype}, expected {baseline.dtype}")
    truth = oracle.astype(np.float64)
    error, index, unexpected = _error(actual.astype(np.float64), truth, baseline.astype(np.float64))
    own, _, _ = _error(baseline.astype(np.float64), truth, baseline.astype(np.float64))
    finite = truth[np.isfinite(truth)]
    scale = float(np.abs(finite).max(initial=0.0))
    unit = unit_in_the_last_place(scale, actual.dtype)
    norm = float(np.linalg.norm(finite))
    return OutputMetrics(
        output=name,
        dtype=dtype,
        scale=scale,
        max_abs=float(error.max(initial=0.0)),
        relative_l2=float(np.linalg.norm(error)) / norm if norm else float(error.max(initial=0.0)),
        ulps=float(error.max(initial=0.0)) / unit,
        worst_index=index,
        nonfinite=int(np.count_nonzero(~np.isfinite(actual.astype(np.float64)))),
        unexpected=unexpected,
        baseline_max_abs=float(own.max(initial=0.0)),
        baseline_ulps=float(own.max(initial=0.0)) / unit,
        conditioning_ulps=conditioning / unit,
    )


def unit_in_the_last_place(scale: float, dtype: np.dtype[np.generic]) -> float:
    """Return the spacing of ``dtype`` at ``scale``; 1 for integers and booleans, which must be equal."""
    if dtype.kind not in "fV" and dtype.name not in ("bfloat16", "float16"):
        return 1.0 / 1024  # any difference of 1 is far outside of every bound
    return float(np.abs(np.spacing(np.asarray(scale).astype(dtype)).astype(np.float64)))


def _error(actual: Array, truth: Array, baseline: Array) -> tuple[Array, tuple[int, ...], int]:
    """Return absolute differences (0 where either is not finite), the worst index, and surprises.

    A NaN or infinity is right where the oracle or the baseline has the same.
    """
    finite = np.isfinite(actual) & np.isfinite(truth)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(finite, np.abs(actual - truth), 0.0)
    same = _same_kind(actual, truth) | _same_kind(actual, baseline)
    index = np.unravel_index(int(error.argmax()), error.shape) if error.size else ()
    return error, tuple(int(i) for i in index), int(np.count_nonzero(~finite & ~same))


def _same_kind(a: Array, b: Array) -> Array:
    same: Array = (np.isnan(a) & np.isnan(b)) | (np.isinf(a) & (a == b))
    return same
