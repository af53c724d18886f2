"""Fill constants in an output, such as the -1e9 of forbidden tokens.

Errors are measured in ULP at the output's scale, its largest magnitude. A fill far larger than the computed values
would set that scale and hide their errors.
"""

from __future__ import annotations

import numpy as np

from ffn_export.core.types import Array

# Smallest ratio of a fill to the rest. Values repeated by a clip or a saturated activation are of the rest's size.
_BEYOND = 64
_MOST_VALUES = 4


def fills(truth: Array) -> Array | None:
    """Return where an output holds repeated numbers far larger than all others, or None if it has none.

    Args:
        truth: The output in float64, where computed values are hardly ever equal.
    """
    size = np.where(np.isfinite(truth), np.abs(truth), 0.0)
    repeated: list[float] = []
    rest = size
    while len(repeated) <= _MOST_VALUES:  # without computed values, 0 repeats until it is one too many
        largest = float(rest.max(initial=0.0))
        if np.count_nonzero(rest == largest) < 2:
            break
        repeated.append(largest)
        rest = np.where(rest == largest, 0.0, rest)
    beyond = [number for number in repeated if number > _BEYOND * largest]
    if not beyond or len(repeated) > _MOST_VALUES:
        return None
    return size >= min(beyond)
