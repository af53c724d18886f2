"""Recognise a matrix made of rows of parameters in any order: cut, gathered, repeated, or interleaved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ffn_export.core.types import Array
from ffn_export.parity.checks.constants.layouts import Layouts
from ffn_export.parity.checks.constants.traced import Traced, places

_LEAST = 4  # smallest number of rows, and of numbers in a row
_COLUMNS = 8  # sampled columns that identify a row
_MOST_TRIED = 64  # unmatched rows that are compared with all rows of parameters
_ORDERLY = 0.9  # share of matched rows from which an unmatched row counts as wrong
_Indices = np.ndarray[tuple[int, ...], np.dtype[np.intp]]


@dataclass(frozen=True)
class _Rows:
    """The rows of all parameters of one width, sorted by a few of their numbers."""

    views: list[Traced]
    starts: _Indices  # number of each view's first row
    samples: Array
    keys: Array
    order: _Indices

    def row(self, number: int) -> tuple[str, Array]:
        """Return the parameter and the numbers of a row, by its number among all rows."""
        view = int(np.searchsorted(self.starts, number, side="right")) - 1
        each = self.views[view]
        return each.parameter, each.expected.reshape(-1, each.expected.shape[-1])[number - self.starts[view]]


class RowIndex:
    """Index of the rows of all parameters, to trace constants made of them."""

    def __init__(self, layouts: Layouts) -> None:
        self._layouts = layouts
        self._by_width: dict[int, _Rows | None] = {}

    def traced(self, stored: Array) -> Traced | None:
        """Return the expected values of a constant if most of its rows or columns are rows of parameters, or None.

        A row is wrong if it matches none and most of its elements match one row, or if the rows around it are evenly
        spaced in the parameter and it is another one. An unmatched row elsewhere is not compared.
        """
        if stored.ndim < 2:
            return None
        rows = stored.reshape(-1, stored.shape[-1])
        found = self._rows(rows)
        if found is not None:
            return Traced(found[0], "rows of it", found[1].reshape(stored.shape))
        columns = stored.reshape(len(stored), -1).T
        found = self._rows(columns)
        return None if found is None else Traced(found[0], "columns of it", found[1].T.reshape(stored.shape))

    def _rows(self, rows: Array) -> tuple[str, Array] | None:
        width = rows.shape[1]
        if width < _LEAST or len(rows) < _LEAST:
            return None
        index = self._of(width)
        if index is None:
            return None
        numbers = self._numbers(rows, index)
        share = float((numbers >= 0).mean())
        if share <= 0.5:
            return None
        expected, names = rows.astype(np.float64), set()
        if share >= _ORDERLY:
            numbers = _in_line(_filled(self._mostly(rows, numbers, index)))
        for place in range(len(rows)):
            if numbers[place] >= 0:
                name, row = index.row(int(numbers[place]))
                names.add(name)
                expected[place] = row
        return "+".join(sorted(names)), expected

    def _numbers(self, rows: Array, index: _Rows) -> _Indices:
        """Return the number of the parameter row that equals each row, or -1. Flat rows match none."""
        wanted = _keys(_samples(rows))
        at = np.searchsorted(index.keys[index.order], wanted)
        numbers = index.order[np.minimum(at, len(index.order) - 1)]
        is_found = (index.keys[numbers] == wanted) & (rows.min(axis=1) != rows.max(axis=1))
        for place in np.flatnonzero(is_found):
            is_found[place] = np.array_equal(index.row(int(numbers[place]))[1], rows[place])
        return np.where(is_found, numbers, -1)

    def _mostly(self, rows: Array, numbers: _Indices, index: _Rows) -> _Indices:
        """Fill in the numbers of unmatched rows of which most elements match a parameter row."""
        filled = numbers.copy()
        for place in np.flatnonzero(numbers < 0)[:_MOST_TRIED]:
            equal = (index.samples == _samples(rows[place : place + 1])).sum(axis=1)
            best = int(equal.argmax())
            row = index.row(best)[1]
            if 2 * np.count_nonzero(row == rows[place]) > len(row) and row.min() != row.max():
                filled[place] = best
        return filled

    def _of(self, width: int) -> _Rows | None:
        if width not in self._by_width:
            views = [v for shape, views in self._layouts.shapes.items() if shape[-1:] == (width,) for v in views]
            views = [view for view in views if view.expected.ndim > 1 and view.rounding == 0.0]
            self._by_width[width] = _indexed(views) if views else None
        return self._by_width[width]


def _indexed(views: list[Traced]) -> _Rows:
    counts = [view.expected.size // view.expected.shape[-1] for view in views]
    samples = np.concatenate([_samples(view.expected.reshape(-1, view.expected.shape[-1])) for view in views])
    keys = _keys(samples)
    return _Rows(views, np.cumsum([0, *counts[:-1]]), samples, keys, np.argsort(keys, kind="stable"))


def _samples(rows: Array) -> Array:
    return np.ascontiguousarray(rows[:, places(rows.shape[1], _COLUMNS)].astype(np.float64))


def _keys(some: Array) -> Array:
    """Return a hash of each row's sample."""
    weights = np.random.default_rng(0).integers(1, 2**63, some.shape[1], dtype=np.uint64) | np.uint64(1)
    keys: Array = (some.view(np.uint64) * weights).sum(axis=1, dtype=np.uint64)
    return keys


def _filled(numbers: _Indices) -> _Indices:
    """Fill in missing numbers between rows that are evenly spaced in the parameter."""
    filled = numbers.copy()
    known = np.flatnonzero(numbers >= 0)
    for place in np.flatnonzero(numbers < 0):
        after = int(np.searchsorted(known, place))
        if not 0 < after < len(known):
            continue
        before, behind = known[after - 1], known[after]
        step, rest = divmod(int(numbers[behind] - numbers[before]), int(behind - before))
        neighbours = [n for n in (before - 1, behind + 1) if 0 <= n < len(numbers) and numbers[n] >= 0]
        steady = all(
            numbers[n] - numbers[e] == step * (n - e)
            for n, e in ((n, before if n < place else behind) for n in neighbours)
        )
        if rest == 0 and step != 0 and steady and neighbours:
            filled[place] = numbers[before] + step * (place - before)
    return filled


def _in_line(numbers: _Indices) -> _Indices:
    """Return the numbers with those replaced that interrupt evenly spaced rows, such as two rows that are exchanged.

    A table that is cut out of a parameter holds its rows in order. Most rows have the usual step to the next; a row
    between two such rows that lie on one line must lie on it, too.
    """
    steps, counts = np.unique(np.diff(numbers), return_counts=True)
    step = int(steps[counts.argmax()])
    if step == 0 or counts.max() < _LEAST:
        return numbers
    offsets = numbers - step * np.arange(len(numbers))
    common, counts = np.unique(offsets, return_counts=True)
    regular = np.flatnonzero(np.isin(offsets, common[counts >= _LEAST]))
    if 4 * len(regular) < 3 * len(numbers):
        return numbers
    straight = numbers.copy()
    for place in np.setdiff1d(np.arange(len(numbers)), regular):
        after = int(np.searchsorted(regular, place))
        if 0 < after < len(regular) and offsets[regular[after - 1]] == offsets[regular[after]]:
            straight[place] = offsets[regular[after]] + step * place
    return straight
