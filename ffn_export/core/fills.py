"""Constants far beyond what an output computes beside them, such as the -1e9 of forbidden tokens."""

from __future__ import annotations

import numpy as np

from ffn_export.core.types import Array

# Smallest ratio of a fill to the rest. Values repeated by a clip or a saturated activation are of the rest's size.
_BEYOND = 64
_MOST_FILLS = 4


def fills(truth: Array) -> Array | None:
    """Return where an output holds repeated numbers far larger than all others, or None if it has none.

    Such are the -1e9 of forbidden tokens. They would set the output's scale, and hide errors of the computed values.
    Zeros beside them, as in a mask that is added to scores, count as numbers of the size of 1. The output is in a dtype
    of NumPy's own.
    """
    least = least_fill([truth])
    return None if least is None else np.isfinite(truth) & (np.abs(truth) >= least)


def least_fill(parts: list[Array]) -> float | None:
    """Return the magnitude from which on the numbers of an output, given in parts, are fills; None if it has none."""
    repeated: list[float] = []
    below = np.inf
    while True:
        largest, count = 0.0, 0
        for part in parts:
            size = np.abs(part)
            size = size[np.isfinite(size) & (size < below)]
            found = float(size.max(initial=0.0))
            if found > largest:
                largest, count = found, 0
            count += int(np.count_nonzero(size == found)) if size.size and found == largest else 0
        # After some kinds, what is left stands for the rest: numbers of few levels may repeat, too.
        if not largest or count < 2 or len(repeated) == _MOST_FILLS:
            break
        repeated.append(largest)
        below = largest
    if not count and repeated:
        largest = repeated.pop()  # nothing is beside them: the smallest stand for the rest
    beyond = [number for number in repeated if number > _BEYOND * (largest or 1.0)]
    return min(beyond, default=None)


def scales(truth: Array) -> list[tuple[Array, float]]:
    """Return the places that are judged at one scale, with it: the finite numbers without fills, and the fills.

    A scale is the largest magnitude: 0 of zeros alone, and 1 of zeros beside fills.
    """
    finite, filled = np.isfinite(truth), fills(truth)
    parts = [finite] if filled is None else [finite & ~filled, filled]
    return [(part, float(np.abs(truth[part]).max(initial=0.0)) or float(len(parts) - 1)) for part in parts]
