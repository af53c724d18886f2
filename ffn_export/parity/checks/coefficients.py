"""Check that activations in half precision have no coefficient that is a little off one of the module.

One that is off by 1 %, such as the 1 of SiLU or the 1.702 of quick GELU, changes an output by less than the bound in
half precision; in float32 the outputs tell. It is wrong if it is near a number that the module's operators are given
in one run (``module_trace``), and is no such number, nor a product or quotient of up to three. Beside many numbers,
and in bfloat16, such products are so many that the check may miss an error.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import torch

from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.checks.computed_nodes import computed_nodes
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.reference.module_trace import Watched

# Operator -> default coefficient, by the schemas of ONNX and ONNX Runtime.
_DEFAULTS: Mapping[str, float] = {"QuickGelu": 1.702, "LeakyRelu": 0.01, "Elu": 1.0, "Celu": 1.0}
# Numbers that operators compute with and are not given: SiLU's 1, and 2 for a sigmoid written as a tanh.
_IMPLIED = (1.0, 2.0)
_NEAR = 2.0**-8, 0.05  # how far off a coefficient is that is wrong: sums of numbers may come nearer
_ROUNDINGS = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}  # of a number, and of a product


def check(run: CheckedRun) -> CheckResult | None:
    """Compare the coefficients of the graph's activations with the numbers that the module computes with.

    The check is skipped if a tolerance is declared, since it may allow another coefficient.
    """
    watched = run.module_trace
    if watched is None or run.declares_tolerance:
        return None
    return CheckResult.of("coefficients", "those of the module", differences(run.model, watched))


def differences(model: ir.Model, watched: Watched) -> tuple[str, ...]:
    """Return one line for each activation whose coefficient is a little off; none in float32 and float64."""
    rounding = max((_ROUNDINGS.get(dtype, 0.0) for dtype in watched.dtypes), default=0.0)
    if not rounding:
        return ()
    numbers = np.unique(np.abs([*_IMPLIED, *watched.numbers]))
    numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
    found = []
    for node in computed_nodes(model):
        if node.op_type not in _DEFAULTS or node.domain not in ("", "com.microsoft"):
            continue
        alpha = node.attributes.get_float("alpha", _DEFAULTS[node.op_type])
        nearest = float(numbers[np.abs(numbers - abs(alpha)).argmin()])
        off = abs(nearest - abs(alpha))
        if _NEAR[0] * nearest < off < _NEAR[1] * nearest and not _is_made_of(abs(alpha), numbers, rounding):
            found.append(
                f"node {node.name!r} ({node.op_type}) has alpha {alpha:.6g}, PyTorch computes with {nearest:.6g}"
            )
    return tuple(found)


def _is_made_of(alpha: float, numbers: np.ndarray[tuple[int], np.dtype[np.float64]], rounding: float) -> bool:
    """Whether a product or quotient of up to three numbers, of which 1 is one, is near a coefficient."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        pairs = np.concatenate([np.multiply.outer(numbers, numbers), np.divide.outer(numbers, numbers)], axis=None)
        pairs = np.unique(pairs[np.isfinite(pairs)])
        # The third is a factor of the coefficient, a factor of the others, or what they divide.
        wanted = np.concatenate([alpha / numbers, alpha * numbers, numbers / alpha])
    beside = np.searchsorted(pairs, wanted)
    near = [pairs[np.clip(beside + step, 0, pairs.size - 1)] for step in (-1, 0)]
    return bool((np.abs(near - wanted) <= rounding * wanted).any())
