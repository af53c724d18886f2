"""Signed 8-bit weights whose products cannot saturate on any processor.

Without VNNI, an x86 processor multiplies unsigned activations by signed weights with ``vpmaddubsw``: it adds the
products of two neighbours along the input axis in 16 bits, and a sum beyond them saturates. An activation is at most
255, so the sum of two neighbours fits if their weights of one sign add up to at most 128: 255 x 128 < 2 ** 15.
"""

from __future__ import annotations

import numpy as np

from ffn_export.core.types import Array

LARGEST = 127
# Largest sum of two neighbours of one sign.
LARGEST_PAIR = 128
# Scales that are tried for each column, as multiples of the one at which its largest weight is 127. A larger scale
# makes fewer pairs too large, at 2 none, and rounds all numbers more coarsely.
_WIDER = np.linspace(0.9, 2.0, 12, dtype=np.float32)


def rounded(matrix: Array, scales: Array) -> Array:
    """Return the nearest safe numbers of a ``[d_in, d_out]`` matrix: both of a pair that is too large give way."""
    pairs = _pairs(np.clip(np.rint(matrix / scales), -LARGEST, LARGEST).astype(np.int16))
    for sign in (1, -1):
        first, second = np.maximum(sign * pairs[:, 0], 0), np.maximum(sign * pairs[:, 1], 0)
        excess = np.maximum(first + second - LARGEST_PAIR, 0)
        # At most 127 each, so an excess leaves both of them above half of it.
        pairs[:, 0] -= sign * ((excess + 1) // 2)
        pairs[:, 1] -= sign * (excess // 2)
    numbers: Array = pairs.reshape(-1, matrix.shape[1])[: len(matrix)].astype(np.int8)
    return numbers


def scales(matrix: Array, importance: Array | None = None, means: Array | None = None) -> Array:
    """Return a scale for each column of a matrix: of those that are tried, the one with the least error.

    Args:
        matrix: ``[d_in, d_out]``.
        importance: Mean square of each input; None if all count alike.
        means: Mean of each input, whose errors in a column add up; None if they are not known.
    """
    weights = np.ones(len(matrix), np.float32) if importance is None else importance.astype(np.float32)
    usual = _usual(matrix)
    if importance is not None and weights.any():  # in units of the largest input: squares of errors stay finite
        unit = np.float32(2) ** np.floor(np.log2(weights.max()) / 2)
        weights, means = weights / unit / unit, None if means is None else means / unit
    if means is not None:
        weights = np.maximum(weights - np.square(means), 0)
    best = usual
    least = np.full(matrix.shape[1], np.inf, np.float32)
    for wider in _WIDER:
        tried = usual * wider
        off = rounded(matrix, tried) * tried - matrix
        error = weights @ np.square(off)
        if means is not None:
            error += np.square(means @ off)
        best, least = np.where(error < least, tried, best), np.minimum(error, least)
    found: Array = best.astype(np.float32)
    return found


def nearest(matrix: Array) -> Array:
    """Return a matrix as 8 bits hold it with the usual scale of each column, safe or not: an estimate of the error."""
    usual = _usual(matrix)
    found: Array = np.rint(matrix / usual) * usual
    return found


def _usual(matrix: Array) -> Array:
    """Return the scales at which the largest weight of each column is 127."""
    found: Array = np.maximum(np.abs(matrix).max(axis=0), np.finfo(np.float32).tiny * LARGEST) / np.float32(LARGEST)
    return found


def _pairs(numbers: Array) -> Array:
    """Return the numbers as ``[pairs, 2, d_out]``, with a zero beside an odd last one."""
    padded = np.pad(numbers.astype(np.int16), ((0, len(numbers) % 2), (0, 0)))
    pairs: Array = padded.reshape(-1, 2, numbers.shape[1])
    return pairs
