"""Rows of an output in a temporary file: logits of many texts can take more memory than the model."""

from __future__ import annotations

import tempfile

import numpy as np

from ffn_export.core.drawing import is_floating
from ffn_export.core.types import Array


class RowsOnDisk:
    """Rows that come a few at a time. The file is gone when nothing reads it any more.

    Example:
        >>> rows = RowsOnDisk()
        >>> rows.add(np.ones((2, 4), np.float32))
        >>> rows.add(np.ones((1, 4), np.float32))
        >>> rows.joined().shape
        (3, 4)
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is read
        self._shapes: list[tuple[int, int]] = []
        self._dtype = np.dtype(np.float32)
        self._strings: list[Array] = []

    def add(self, rows: Array) -> None:
        """Add rows, ``[rows, width]``."""
        self._shapes.append((rows.shape[0], rows.shape[1]))
        self._dtype = rows.dtype
        if self._dtype.kind in "OUS":  # strings: their bytes in memory are addresses, or of another length each time
            self._strings.append(rows.reshape(-1).astype(object))
        else:
            self._file.write(rows.tobytes())

    def joined(self) -> Array:
        """Return all rows, as an array that reads the file. No more can be added then.

        Those of an output whose last axis is the length differ in width. Floats are filled up with -inf, like logits
        that a mask takes out. Integers and strings become one column.
        """
        widths, numbers = {width for _, width in self._shapes}, self._numbers()
        if len(widths) == 1:
            return numbers.reshape(sum(count for count, _ in self._shapes), *widths)
        return self._filled(numbers, max(widths)) if is_floating(numbers) else numbers[:, None]

    def _filled(self, numbers: Array, width: int) -> Array:
        filled, first = RowsOnDisk(), 0
        for count, own in self._shapes:
            rows = np.full((count, width), -np.inf, self._dtype)
            rows[:, :own] = numbers[first : first + count * own].reshape(count, own)
            filled.add(rows)
            first += count * own
        return filled.joined()

    def _numbers(self) -> Array:
        count = sum(rows * width for rows, width in self._shapes)
        with self._file:
            self._file.flush()
            if self._strings:
                return np.concatenate(self._strings)
            if not count:  # an empty file cannot be mapped
                return np.empty(0, self._dtype)
            # A metric of the user's may write to what it gets: to pages of its own.
            return np.memmap(self._file, self._dtype, "c", shape=(count,))
