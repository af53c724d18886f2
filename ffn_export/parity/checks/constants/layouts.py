"""Recognise constants that hold one parameter, in any order of axes, scaled, or combined with a vector."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import permutations

import numpy as np

from ffn_export.core.types import Array
from ffn_export.parity.checks.constants.traced import (
    NEAR,
    Traced,
    distance,
    epsilon,
    magnitude,
    mostly,
    off,
    places,
    same,
    sampled,
)

_MOST_PERMUTED = 4  # axes; with more, only the stored order is tried
_ROUNDINGS = 4
_GRID = 16  # sampled rows and columns
_FEW = 4096  # elements of an array that is compared without a sample first


class Layouts:
    """Parameters by the number of their elements, with a sample of each."""

    def __init__(self) -> None:
        self.shapes: dict[tuple[int, ...], list[Traced]] = defaultdict(list)
        self._by_size: dict[int, list[Traced]] = defaultdict(list)
        self._samples: dict[int, Array] = {}

    def add(self, name: str, array: Array, rounding: float = 0.0, absolute: float = 0.0) -> None:
        """Add a parameter, whose elements may be off by a relative and an absolute rounding error."""
        for how, view in _orders(array):
            held = Traced(name, how, view, rounding, absolute)
            self.shapes[view.shape].append(held)
            self._by_size[array.size].append(held)

    def one(self, stored: Array, without: Collection[str] = ()) -> Traced | None:
        """Return the one parameter that a constant holds, possibly combined with a vector, or None.

        Args:
            stored: The constant.
            without: Parameters that the graph holds exactly, which are not matched by nearness.
        """
        return (
            self.equal(stored)
            or self.nearly_all(stored, without)
            or self.scaled(stored)
            or self.by_line(stored)
            or self.nearest(stored, without)
        )

    def equal(self, stored: Array) -> Traced | None:
        """Return the parameter that a constant holds exactly."""
        views, samples = self._like(stored)
        have = sampled(stored)
        hits = ((samples == have) | (np.isnan(samples) & np.isnan(have))).all(axis=1)
        alike = (views[i] for i in _by_shape(views, np.flatnonzero(hits), stored))
        return next((_named(view, stored) for view in alike if same(stored, view.expected)), None)

    def computed(self, stored: Array, made: Collection[str] = ()) -> Traced | None:
        """Return the computed tensor that a constant equals up to the roundings of its folding.

        It may be near a parameter that it is computed from: a weight whose norm is already near the wanted one.

        Args:
            stored: The constant.
            made: Tensors that the module reads in place of the parameters that they are made of. Others are compared
                here only if their terms may cancel.
        """
        views, samples = self._like(stored)
        have = sampled(stored)
        for index in np.flatnonzero([view.absolute > 0 or view.parameter in made for view in views]):
            view, want = views[index], samples[index]
            with np.errstate(invalid="ignore"):  # masks hold infinities
                near = np.abs(want - have) <= np.maximum(view.rounding * np.abs(want), view.absolute)
            if (near | (want == have)).all() and not off(stored, view)[0]:
                return _named(view, stored)
        return None

    def nearly_all(self, stored: Array, without: Collection[str] = ()) -> Traced | None:
        """Return the parameter that equals most elements, or nearly all if the graph also holds it exactly."""
        views, samples = self._like(stored)
        shares = (samples == sampled(stored)).mean(axis=1)
        for index in sorted(np.flatnonzero(shares > 0.25), key=lambda i: -shares[i]):
            view = views[index]
            if mostly(stored, view.expected, 0.0, share=0.9 if view.parameter in without else 0.5):
                return _named(view, stored)
        return None

    def nearest(self, stored: Array, without: Collection[str] = (), most: float = NEAR) -> Traced | None:
        """Return the parameter nearest to a constant, among those that the graph does not hold exactly."""
        views, samples = self._like(stored)
        have = sampled(stored)
        with np.errstate(invalid="ignore"):
            near = np.median(np.abs(samples - have), axis=1) <= np.median(np.abs(samples), axis=1) / 2
        # The median decides nothing for a mask of infinities, or for few elements.
        hopeful = np.arange(len(views)) if stored.size <= _FEW else np.flatnonzero(near)
        tried = [views[i] for i in _by_shape(views, hopeful, stored) if views[i].parameter not in without]
        apart = [distance(stored, each.expected) for each in tried]
        best = min(range(len(tried)), key=apart.__getitem__, default=None)
        return _named(tried[best], stored) if best is not None and apart[best] <= most else None

    def resembles(self, stored: Array) -> str:
        """Return the parameter that a constant correlates with although it is not near it, or an empty string."""
        views, samples = self._like(stored)
        have = sampled(stored)
        with np.errstate(all="ignore"):
            moved, others = have - have.mean(), samples - samples.mean(axis=1, keepdims=True)
            alike = np.nan_to_num(
                others @ moved / (np.linalg.norm(others, axis=1) * np.linalg.norm(moved)), nan=0.0, posinf=0.0
            )
        best = int(np.abs(alike).argmax()) if len(views) and have.size >= _GRID else None
        return views[best].parameter if best is not None and abs(alike[best]) > 0.8 else ""

    def scaled(self, stored: Array) -> Traced | None:
        """Recognise ``c * p`` and ``1 + p``. The outputs decide whether ``c`` is right."""
        views, samples = self._like(stored)
        have, rounding = sampled(stored), _ROUNDINGS * epsilon(stored)
        with np.errstate(all="ignore"):
            used = samples != 0
            numbers = _medians(np.where(used, have / samples, np.nan), axis=1)
            times = (np.abs(have - numbers * samples) <= 2 * rounding * np.abs(have)) & used
            plus = np.abs(have - (1 + samples)) <= 2 * rounding * np.abs(have)
        for index in np.flatnonzero(plus.mean(axis=1) > 0.5):
            each, expected = views[index], 1 + views[index].expected.astype(np.float64)
            if mostly(stored, expected, rounding):
                return Traced(each.parameter, f"1 + it, {each.how}", expected, rounding)
        for index in np.flatnonzero(times.sum(axis=1) > used.sum(axis=1) / 2):
            each, number = views[index], float(numbers[index, 0])
            if number == 0 or not np.isfinite(number) or abs(number - 1) <= NEAR:  # meant to equal it
                continue
            expected = number * each.expected.astype(np.float64)
            if mostly(stored, expected, rounding):
                return Traced(each.parameter, f"times {number:.6g}, {each.how}", expected, rounding)
        return None

    def by_line(self, stored: Array) -> Traced | None:
        """Recognise a matrix with a vector multiplied into or added to its rows or columns.

        Examples are a norm's scale folded into the next product, or one row of a table added to all rows of another.
        """
        matrix = stored.squeeze()
        if matrix.ndim != 2 or min(matrix.shape) < 4:
            return None
        views = self.shapes.get(matrix.shape, [])
        grid = np.ix_(*(places(size, _GRID) for size in matrix.shape))
        if not views:
            return None
        have, want = matrix[grid].astype(np.float64), np.stack([v.expected[grid] for v in views]).astype(np.float64)
        tolerance = 8 * epsilon(stored)
        with np.errstate(all="ignore"):
            size = np.abs(have) + np.abs(want)
            for along in (2, 1):
                factor = _medians(np.where(want != 0, have / want, np.nan), axis=along)
                added = _medians(have - want, axis=along)
                fits = {
                    "times": np.abs(have - factor * want) <= tolerance * np.abs(have),
                    "plus": np.abs(have - (added + want)) <= tolerance * (size + np.abs(added)),
                }
                for kind, right in fits.items():
                    for index in np.flatnonzero(right.mean(axis=(1, 2)) > 0.6):
                        found = self._folded(matrix, views[index], 2 - along, kind)
                        if found is not None:
                            return found
        return None

    def _folded(self, matrix: Array, view: Traced, axis: int, kind: str) -> Traced | None:
        """Return a parameter combined with a vector along an axis, which is named if it is a parameter, too."""
        columns = places(matrix.shape[1 - axis])
        have, want = (each.take(columns, 1 - axis).astype(np.float64) for each in (matrix, view.expected))
        with np.errstate(all="ignore"):
            by_element = np.where(want != 0, have / want, np.nan) if kind == "times" else have - want
        vector = np.nan_to_num(_medians(by_element, axis=1 - axis)).reshape(-1)
        named, exact = self._vector(vector.astype(matrix.dtype), 8 * epsilon(matrix))
        line = np.expand_dims(vector if exact is None else exact, 1 - axis)
        whole = view.expected.astype(np.float64)
        expected = line * whole if kind == "times" else line + whole
        rounding = (_ROUNDINGS if exact is not None else 2 * _ROUNDINGS) * epsilon(matrix)
        absolute = rounding * magnitude(line) if kind == "plus" else 0.0
        if not mostly(matrix, expected, rounding, absolute) or (not named and distance(matrix, whole) <= NEAR):
            return None
        lines = ("rows", "columns")[axis]
        by = f"{named}, {lines} {kind}" if named else f"{lines} {kind} numbers of their own"
        parameter = f"{view.parameter}+{named.split(', ')[-1]}" if named else view.parameter
        return Traced(parameter, f"{by}, {view.how}", expected, rounding, absolute)

    def _vector(self, vector: Array, rounding: float) -> tuple[str, Array | None]:
        """Return the parameter, or row of a small one, that a vector equals up to rounding, and its numbers."""
        for shape, views in self.shapes.items():
            if shape[-1:] != vector.shape or len(shape) > 2 or (len(shape) == 2 and shape[0] > _GRID):
                continue
            for each in views:
                for row in each.expected.reshape(-1, len(vector)).astype(np.float64):
                    for how, wanted in (("", row), ("1 + ", 1 + row)):
                        if mostly(vector, wanted, rounding, rounding * magnitude(wanted)):
                            return f"{how}{each.parameter}".replace("1 + ", "1 + it, "), wanted
        return "", None

    def _like(self, stored: Array) -> tuple[list[Traced], Array]:
        size = stored.size
        if size not in self._samples:
            samples = [sampled(each.expected) for each in self._by_size.get(size, [])]
            self._samples[size] = np.stack(samples) if samples else np.zeros((0, len(places(size))))
        return self._by_size.get(size, []), self._samples[size]


def _orders(array: Array) -> Iterator[tuple[str, Array]]:
    """Yield an array without axes of size 1, with its other axes in every order."""
    squeezed = array.squeeze()
    yield "as it is", squeezed
    if squeezed.ndim == 2:
        yield "transposed", squeezed.T
    elif 2 < squeezed.ndim <= _MOST_PERMUTED:
        for axes in list(permutations(range(squeezed.ndim)))[1:]:
            yield f"axes in the order {axes}", squeezed.transpose(axes)


def _by_shape(views: list[Traced], indices: Collection[int], stored: Array) -> list[int]:
    """Sort indices so that views of the constant's shape come first."""
    return sorted(map(int, indices), key=lambda i: views[i].expected.shape != stored.squeeze().shape)


def _named(view: Traced, stored: Array) -> Traced:
    if view.expected.shape == stored.squeeze().shape:
        return view
    return Traced(view.parameter, f"{view.how}, reshaped", view.expected, view.rounding, view.absolute)


def _medians(array: Array, axis: int) -> Array:
    """Return medians along an axis, ignoring NaN and keeping the axis with size 1; NaN if all are NaN."""
    ordered = np.sort(array, axis=axis)  # NaN come last
    count = (~np.isnan(ordered)).sum(axis=axis, keepdims=True)
    middle = np.maximum(count - 1, 0) // 2
    return np.take_along_axis(ordered, middle, axis=axis)
