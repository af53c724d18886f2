"""Checks of constructor arguments: widths, dropout probabilities, epsilons, normalized shapes.

They run when a module is built. In ``forward``, a comparison with a dynamic size would become a guard
of ``torch.export``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import SupportsIndex

from ffn_export.errors import UsageError


def width(name: str, value: SupportsIndex) -> int:
    """Return ``value`` as a positive int.

    Raises:
        UsageError: It is not a whole number of at least 1.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise UsageError(f"{name} must be a whole number of at least 1, got {value!r}")
    return number


def dropout(value: float) -> float:
    """Return a probability of dropout, as a float in [0, 1].

    Raises:
        UsageError: It is not a number in that range.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise UsageError(f"dropout must be a number from 0 to 1, got {value!r}")
    return float(value)


def epsilon(value: float) -> float:
    """Return ``value`` as a positive finite float.

    Raises:
        UsageError: It is anything else. With an epsilon of 0, the norm of a constant row is NaN.
    """
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise UsageError(f"eps must be a positive number such as 1e-5, got {value!r}")
    return float(value)


def shape(name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    """Return ``value``, one trailing width or several, as a tuple.

    Raises:
        UsageError: It is empty, or a width is not a whole number of at least 1.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        return (width(name, value),)
    if not value:
        raise UsageError(f"{name} must name at least one trailing dimension, such as 768 or [3, 4]")
    return tuple(width(name, each) for each in value)
