"""How large an error may be."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerances:
    """What a runtime's error is allowed to be, in units of the last place of the output's own scale.

    A runtime adds in another order than PyTorch, so it may be some times worse or better; below the
    floor the difference says nothing. The floor is far under every fault worth finding: on
    ``bert-ffn`` the wrong kind of GELU is off by 292 units and one weight wrong by 1 % by 20, while
    PyTorch's own float32 error is 1.3.

    Attributes:
        baseline_factor: Times PyTorch's own error in the same dtype.
        floor_ulps: Always allowed.
    """

    baseline_factor: float = 4.0
    floor_ulps: float = 8.0


def allowed_ulps(baseline_ulps: float, tolerances: Tolerances) -> float:
    """Return the largest error allowed where PyTorch's own is ``baseline_ulps``; NaN counts as none."""
    if math.isnan(baseline_ulps):
        return tolerances.floor_ulps
    return max(tolerances.baseline_factor * baseline_ulps, tolerances.floor_ulps)
