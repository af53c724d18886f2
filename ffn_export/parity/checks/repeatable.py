"""Check that the reference returns the same numbers each time, since a graph cannot reproduce random draws.

Without this check, the distance between two calls of a module would count as PyTorch's own error and widen the bound.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ffn_export.core.drawing import float_info
from ffn_export.core.fills import scales
from ffn_export.core.types import Array
from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.reference.references import Reference

_UNITS = 64  # ULP of the largest number; differences from the order of additions in threads are far smaller


def check(run: CheckedRun) -> CheckResult | None:
    """Run the reference twice on the first case with finite outputs."""
    case = run.first(result for result in run.results if any(output.elements for output in result.outputs))
    if case is None:
        return None
    findings = differences(run.reference, case.feeds(run.reference.inputs))
    return CheckResult.of("repeatable", "the reference gives the same numbers twice", findings)


def differences(reference: Reference, feeds: Mapping[str, Array]) -> tuple[str, ...]:
    """Run a reference twice on the same inputs, and return one line for each output that differs."""
    first, second = reference.baseline(feeds), reference.baseline(feeds)
    return tuple(
        f"{reference.name} gives other numbers in {name!r} when it is called again with the same inputs (up to "
        f"{largest:.2g} apart): a graph gives the same each time, so numbers that it draws, or keeps from "
        "call to call, have to come from outside: make them an input"
        for name, largest in ((name, _apart(first[name], second[name])) for name in first if name in second)
        if largest > 0
    )


def _apart(one: Array, other: Array) -> float:
    """Return the largest difference between two outputs, or 0 if rounding explains it."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return float("inf")
    if one.dtype.kind not in "fV" and "float" not in one.dtype.name:
        return float((one != other).any())
    wide, again = one.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(wide) & np.isfinite(again)
    if not np.array_equal(wide[~finite], again[~finite], equal_nan=True):
        return float("inf")
    unit = _UNITS * float(float_info(one.dtype).eps)
    found = ((float(np.abs(wide[at] - again[at]).max(initial=0.0)), scale) for at, scale in scales(wide))
    return max(largest if largest > unit * scale else 0.0 for largest, scale in found)
