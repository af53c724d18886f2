"""Constants far beyond what an output computes beside them, such as the -1e9 of forbidden tokens."""

from __future__ import annotations

import numpy as np

from ffn_export.core.types import Array

# Smallest ratio of a fill to the rest. Values repeated by a clip or a saturated activation are of the rest's size.
_BEYOND = 64
_FAR_BEYOND = 2.0**16  # of a single number: one unit in its last place is 1 % of the rest in float32
_MOST_FILLS = 4


def fills(truth: Array) -> Array | None:
    """Return where an output holds numbers far larger than all others, or None if it has none.

    They are repeated, or so far above that one alone would hide the rest.

    Such are the -1e9 of forbidden tokens. They would set the output's scale, and hide errors of the computed values.
    Zeros beside them, as in a mask that is added to scores, count as numbers of the size of 1. The output is in a dtype
    of NumPy's own.
    """
    least = least_fill([truth])
    return None if least is None else np.isfinite(truth) & (np.abs(truth) >= least)


def least_fill(parts: list[Array]) -> float | None:
    """Return the magnitude from which on the numbers of an output, given in parts, are fills; None if it has none."""
    large: list[float] = []
    while True:
        largest, count = _largest(parts, large[-1] if large else np.inf)
        # After some kinds, what is left stands for the rest: numbers of few levels may repeat, too.
        if not largest or len(large) == _MOST_FILLS or (count == 1 and not _is_far_above(largest, parts)):
            break
        large.append(largest)
    if not count and large:
        largest = large.pop()  # nothing is beside them: the smallest stand for the rest
    beyond = [number for number in large if number > _BEYOND * (largest or 1.0)]
    return min(beyond, default=None)


def _largest(parts: list[Array], below: float) -> tuple[float, int]:
    """Return the largest finite magnitude below a number, and how often it occurs; 0 of either if there is none."""
    largest, count = 0.0, 0
    for part in parts:
        size = np.abs(part)
        size = size[np.isfinite(size) & (size < below)]
        found = float(size.max(initial=0.0))
        if found > largest:
            largest, count = found, 0
        count += int(np.count_nonzero(size == found)) if size.size and found == largest else 0
    return largest, count


def _is_far_above(number: float, parts: list[Array]) -> bool:
    """Whether a number is so far above 1 and all others that at its scale they would not be judged."""
    rest, _ = _largest(parts, number)
    return rest > 0 and number > _FAR_BEYOND * max(rest, 1.0)


def scales(truth: Array) -> list[tuple[Array, float]]:
    """Return the places that are judged at one scale, with it: the finite numbers without fills, and the fills.

    A scale is the largest magnitude: 0 of zeros alone, and 1 of zeros beside fills.
    """
    finite, filled = np.isfinite(truth), fills(truth)
    parts = [finite] if filled is None else [finite & ~filled, filled]
    return [(part, float(np.abs(truth[part]).max(initial=0.0)) or float(len(parts) - 1)) for part in parts]
