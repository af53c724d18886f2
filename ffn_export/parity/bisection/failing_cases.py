"""Select the cases that a bisection runs on: those that failed, the most informative first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from ffn_export.parity.cases.case import Case, given, sweep
from ffn_export.parity.cases.masks import MASKS
from ffn_export.parity.cases.values import VALUES
from ffn_export.parity.judging.result import CaseResult, ParityResult

_MOST = 3


def to_try(
    result: ParityResult,
    runtime: str,
    specs: Sequence[TensorSpec],
    samples: Mapping[str, Array] | None = None,
    seed: int = 0,
) -> list[Case]:
    """Return up to three cases on which a runtime failed, or if none did, two cases that show most faults.

    Args:
        result: Result of a verification.
        runtime: Name of the runtime.
        specs: Inputs of the reference.
        samples: Arrays of the user, which a case of the result may hold.
        seed: Seed of the cases drawn if none failed.
    """
    failed = [c for c in result.cases if c.runtime == runtime and c.status(result.tolerances) == "failed"]
    failed = [
        case for case in failed if case.values in (*VALUES, *MASKS) or (case.values == "given" and samples is not None)
    ]
    if failed:
        return [_case(case, specs, samples) for case in sorted(failed, key=_telling)[:_MOST]]
    drawn = sweep(specs, seed=seed)
    return [drawn[0], *(case for case in drawn[1:] if case.values == "small")]


def _telling(case: CaseResult) -> tuple[bool, bool, int]:
    """Sort key of cases: without empty tensors first, then well-conditioned, then small."""
    sizes = case.sizes.values()
    return 0 in sizes, case.values in VALUES and VALUES[case.values].ill_conditioned, math.prod(sizes)


def _case(case: CaseResult, specs: Sequence[TensorSpec], samples: Mapping[str, Array] | None) -> Case:
    if case.values == "given" and samples is not None:
        return given(samples, specs)
    return Case(case.case, case.sizes, case.values, case.seed)
