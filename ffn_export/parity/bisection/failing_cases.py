"""Select the cases that a bisection runs on: those that failed, the most informative first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.parity.cases.case import Case, one_at_a_time, sweep
from ffn_export.parity.cases.masks import MASKS
from ffn_export.parity.cases.values import VALUES
from ffn_export.parity.judging.result import CaseResult, ParityResult

_MOST = 3


def to_try(
    result: ParityResult,
    runtime: str,
    specs: Sequence[TensorSpec],
    cases: Callable[[int], Sequence[Case]],
    seed: int,
) -> list[Case]:
    """Return up to three cases on which a runtime failed, or if none did, two cases that show most faults.

    Args:
        result: Result of a verification.
        runtime: Name of the runtime.
        specs: Inputs of the reference.
        cases: Returns the cases that hold arrays, for a seed: those of the user, and those aimed at thresholds.
        seed: Seed of the cases drawn if none failed.
    """
    failed = [c for c in result.cases if c.runtime == runtime and c.status(result.tolerances) == "failed"]
    failed.sort(key=_telling)
    aimed_at = max((case.seed for case in failed if not _is_drawn(case)), default=None)
    known = {} if aimed_at is None else {case.name: case for case in cases(aimed_at)}
    found = [
        _drawn_again(case, specs) if _is_drawn(case) else known[case.case]
        for case in failed
        if _is_drawn(case) or case.case in known
    ]
    if found:
        return found[:_MOST]
    drawn = sweep(specs, seed=seed)
    return [drawn[0], *(case for case in drawn[1:] if case.values == "small")]


def _drawn_again(case: CaseResult, specs: Sequence[TensorSpec]) -> Case:
    alone = {each.name: each for each in one_at_a_time(specs, case.sizes, case.seed)}
    return alone.get(case.case) or Case(case.case, case.sizes, case.values, case.seed)


def _is_drawn(case: CaseResult) -> bool:
    return case.values in VALUES or case.values in MASKS


def _telling(case: CaseResult) -> tuple[bool, bool, int]:
    """Sort key of cases: without empty tensors first, then well-conditioned, then small."""
    sizes = case.sizes.values()
    return 0 in sizes, case.values in VALUES and VALUES[case.values].ill_conditioned, math.prod(sizes)
