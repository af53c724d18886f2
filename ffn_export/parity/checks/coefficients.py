"""Check that every activation with a coefficient has one that the module computes with.

A coefficient that is off by 1 % changes an output by less than the bound in half precision, such as the 1 of SiLU or
the 1.702 of quick GELU. It must be a number that the module's operators are given in one run (``module_trace``), or a
product or quotient of two: ``x * sigmoid(a * (b * x))`` becomes one node.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import torch

from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.reference.module_trace import Watched

# Operator -> default coefficient, by the schemas of ONNX and ONNX Runtime.
_DEFAULTS: Mapping[str, float] = {"QuickGelu": 1.702, "LeakyRelu": 0.01, "Elu": 1.0, "Celu": 1.0}
# Numbers that operators compute with and are not given: SiLU's 1, and 2 for a sigmoid written as a tanh.
_IMPLIED = (1.0, 2.0)
_ROUNDING = 2.0**-22  # An attribute is a float32,
_ROUNDINGS = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}  # which may come from a constant in half precision.


def check(run: CheckedRun) -> CheckResult | None:
    """Compare the coefficients of the graph's activations with the numbers that the module computes with.

    The check is skipped if a tolerance is declared, since it may allow another coefficient.
    """
    watched = run.module_trace
    if watched is None or run.declares_tolerance:
        return None
    return CheckResult.of("coefficients", "those of the module", differences(run.model, watched))


def differences(model: ir.Model, watched: Watched) -> tuple[str, ...]:
    """Return one line for each activation whose coefficient the module does not use."""
    rounding = max((_ROUNDINGS.get(dtype, 0.0) for dtype in watched.dtypes), default=0.0) or _ROUNDING
    known = _known(watched)
    return tuple(
        f"node {node.name!r} ({node.op_type}) has alpha {alpha:.6g}, which PyTorch computes with nowhere"
        for node in model.graph.all_nodes()
        if node.op_type in _DEFAULTS and node.domain in ("", "com.microsoft")
        for alpha in [node.attributes.get_float("alpha", _DEFAULTS[node.op_type])]
        if not _is_whole(alpha) and not (np.abs(known - abs(alpha)) <= rounding * known).any()
    )


def _known(watched: Watched) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the magnitudes that a coefficient may have."""
    numbers = np.unique(np.abs([*_IMPLIED, *watched.numbers]))
    numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
    with np.errstate(over="ignore", under="ignore"):
        known = np.concatenate([np.multiply.outer(numbers, numbers), np.divide.outer(numbers, numbers)], axis=None)
    return np.unique(known[np.isfinite(known)])


def _is_whole(alpha: float) -> bool:
    """Whether a coefficient or its inverse is a whole number, such as 2: the trace holds no integers."""
    return any(abs(number - round(number)) <= _ROUNDING * abs(number) for number in (alpha, 1 / alpha if alpha else 0))
