"""Copy a transposed array to C-contiguous memory, block by block."""

from __future__ import annotations

import numpy as np

from ffn_export.core.types import Array

# Block of rows and columns that is copied at a time, so that source and destination both stay in the first-level
# caches. NumPy copies row by row and reads a new cache line for each number, which is seven times as slow for the
# weights of BERT.
_ROWS, _COLUMNS = 256, 64


def contiguous(array: Array) -> Array:
    """Return the array if it is C-contiguous, otherwise a C-contiguous copy of the same shape, dtype and numbers."""
    if array.flags.c_contiguous or array.ndim < 2 or abs(array.strides[-2]) >= abs(array.strides[-1]):
        return np.ascontiguousarray(array)
    copied = np.empty(array.shape, array.dtype)
    rows, columns = array.shape[-2:]
    for row in range(0, rows, _ROWS):
        for column in range(0, columns, _COLUMNS):
            tile = ..., slice(row, row + _ROWS), slice(column, column + _COLUMNS)
            copied[tile] = array[tile]
    return copied
