"""Checks of numbers that callers of Python or files give. The command line has ranges of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real

from ffn_export.errors import UsageError

LARGEST_SEED = 2**63 - 1


def check_seed(seed: object, name: str = "seed") -> None:
    """Check that a seed is one that PyTorch and NumPy both take.

    Raises:
        UsageError: If it is not.
    """
    if not isinstance(seed, Integral) or not 0 <= int(seed) <= LARGEST_SEED:
        raise UsageError(f"{name} must be a whole number from 0 to {LARGEST_SEED}, got {seed!r}")


def check_tokens(tokens: Sequence[int]) -> None:
    """Check that there are numbers of tokens, each of them 1 or more.

    Raises:
        UsageError: If not.
    """
    if not isinstance(tokens, Sequence) or isinstance(tokens, str) or not tokens:
        raise UsageError(f"tokens are a list of lengths such as [1, 128], got {tokens!r}")
    for count in tokens:
        if not isinstance(count, Integral) or int(count) < 1:
            raise UsageError(f"tokens of {count!r} cannot be timed: take 1 or more")


def is_positive(number: object) -> bool:
    """Whether something is a finite number above 0."""
    return isinstance(number, Real) and 0 < float(number) < math.inf


def written(number: object) -> str:
    """Return a number, or what was given in its place, as a message shows it."""
    return f"{number:g}" if isinstance(number, float) else repr(number)
