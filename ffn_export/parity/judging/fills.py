"""Constants that fill places of an output, such as the -1e9 of tokens that are forbidden.

An error is counted in units of the last place of the output's own scale. A constant that is many times as large as
whatever is computed beside it would be that scale, and no error of the rest would show.
"""

from __future__ import annotations

import numpy as np

from ffn_export.core.types import Array

# By how much a fill is beyond the rest. Numbers that a clip or a saturated activation repeats are of the rest's size.
_BEYOND = 64
_MOST_VALUES = 4


def fills(truth: Array) -> Array | None:
    """Return where an output holds numbers that it repeats and that are far beyond all others; None for nowhere.

    Args:
        truth: The output in float64, in which what is computed is hardly ever the same twice.
    """
    size = np.where(np.isfinite(truth), np.abs(truth), 0.0)
    repeated: list[float] = []
    rest = size
    while len(repeated) <= _MOST_VALUES:
        largest = float(rest.max(initial=0.0))
        if largest == 0.0:  # nothing is left to have a scale of its own
            return None
        if np.count_nonzero(rest == largest) < 2:
            break
        repeated.append(largest)
        rest = np.where(rest == largest, 0.0, rest)
    beyond = [number for number in repeated if number > _BEYOND * largest]
    if not beyond or len(repeated) > _MOST_VALUES:
        return None
    return size >= min(beyond)
