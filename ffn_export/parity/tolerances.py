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

    On ill-conditioned rows the conditioning counts too: how far one rounding of the inputs moves the
    truth. PyTorch may be exact there by luck, so that its own error says nothing: the mean of a constant
    row comes out right or one unit wrong, and the norm multiplies that unit by 1 / sqrt(epsilon).

    Attributes:
        baseline_factor: Times PyTorch's own error in the same dtype.
        floor_ulps: Always allowed.
        conditioning_factor: Times the conditioning. A sum and its mean are rounded once each.
        explained_factor: Times the conditioning that it still explains, for an operator that is known to
            be less accurate: one that adds n elements in turn is off by about sqrt(n) roundings (Higham and
            Mary 2019, "A new approach to probabilistic rounding error analysis"), and rows have up to 4,096.
    """

    baseline_factor: float = 4.0
    floor_ulps: float = 8.0
    conditioning_factor: float = 2.0
    explained_factor: float = 64.0


def allowed_ulps(baseline_ulps: float, tolerances: Tolerances, conditioning_ulps: float = 0.0) -> float:
    """Return the largest error allowed where PyTorch's own is ``baseline_ulps``; NaN counts as none."""
    return max(
        tolerances.floor_ulps,
        _known(tolerances.baseline_factor * baseline_ulps),
        _known(tolerances.conditioning_factor * conditioning_ulps),
    )


def explained_ulps(conditioning_ulps: float, tolerances: Tolerances) -> float:
    """Return the largest error that conditioning explains for an operator known to be less accurate."""
    return _known(tolerances.explained_factor * conditioning_ulps)


def _known(ulps: float) -> float:
    return ulps if math.isfinite(ulps) else 0.0
