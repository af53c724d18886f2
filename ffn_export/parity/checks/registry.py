"""List of all checks of a whole graph. To add a check, write a file with a function ``check`` and list it here."""

from __future__ import annotations

from collections.abc import Callable

from ffn_export.parity.checks import (
    bodies,
    coefficients,
    epsilons,
    gelu_kinds,
    inference_only,
    interface,
    precisions,
    repeatable,
)
from ffn_export.parity.checks.checked_run import CheckedRun
from ffn_export.parity.judging.check_result import CheckResult

Check = Callable[[CheckedRun], CheckResult | None]
"""Function that runs one check. It returns None if the check does not apply."""

CHECKS: tuple[Check, ...] = (
    interface.check,
    inference_only.check,
    bodies.check,
    repeatable.check,
    epsilons.check,
    gelu_kinds.check,
    coefficients.check,
    precisions.check,
)


def run_checks(run: CheckedRun) -> tuple[CheckResult, ...]:
    """Run every check that applies."""
    found = (check(run) for check in CHECKS)
    return tuple(result for result in found if result is not None)
