"""Fingerprints of tensors: the shape and a few numbers, so that thousands fit in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ffn_export.core.drawing import float_info
from ffn_export.core.types import Array
from ffn_export.parity.bisection.judged_errors import HUGE

_SAMPLES = 64


@dataclass(frozen=True, eq=False)
class Print:
    """A tensor's fingerprint.

    Attributes:
        shape: Shape of the tensor.
        floating: Whether it holds floating-point numbers; others must be equal.
        samples: Up to 64 elements in float64, at places that depend only on the number of elements.
        norm: L2 norm of the finite elements.
    """

    shape: tuple[int, ...]
    floating: bool
    samples: Array
    norm: float

    def distance(self, other: Print) -> float:
        """Return the distance of another tensor, relative to this one; infinite if it cannot be the same."""
        if self.shape != other.shape or self.floating != other.floating:
            return np.inf
        mine, theirs = self.samples, other.samples
        finite = np.isfinite(mine)
        if not np.array_equal(mine[~finite], theirs[~finite], equal_nan=True) or not np.isfinite(theirs[finite]).all():
            return np.inf
        mine, theirs = mine[finite], theirs[finite]
        apart = float(np.abs(mine - theirs).max(initial=0.0))
        if not self.floating:
            return 0.0 if apart == 0 and self.norm == other.norm else np.inf
        scale = float(np.abs(mine).max(initial=0.0))
        if scale == 0:
            return 0.0 if apart == 0 else np.inf
        return max(apart / scale, abs(self.norm - other.norm) / (self.norm or 1.0))


def fingerprint(array: Array) -> Print:
    """Take the fingerprint of an array of numbers."""
    floating = array.dtype.kind not in "iub"
    flat = array.reshape(-1)
    wide = flat.astype(np.float64)
    if floating:  # masked scores count as infinite, since at their scale scores do not differ
        wide[np.abs(wide) > HUGE * float(float_info(array.dtype).max)] *= np.inf
    norm = float(np.linalg.norm(np.nan_to_num(wide, posinf=0.0, neginf=0.0)))
    return Print(array.shape, floating, wide[_places(wide.size)], norm)


@cache
def _places(size: int) -> Array:
    if size <= _SAMPLES:
        return np.arange(size)
    return np.sort(np.random.default_rng(size).choice(size, _SAMPLES, replace=False))
