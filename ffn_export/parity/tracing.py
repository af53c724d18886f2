"""Finds the parameters that an initialiser was made of, by its numbers alone: names do not survive an export."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ffn_export.exporter.drawing import Array, float_info

# Nearer than this, relative to the parameter's norm, an initialiser is that parameter or was meant to
# be. Two independent matrices are about 1.4 apart.
_NEAR = 0.1
_LOOKED_AT = 256
# Roundings of a norm over a row of a weight.
_SUMS = 64
# Roundings of a few operators, each folded by itself; and the bytes of a number that has room for them.
_FOLDED = 4
_SINGLE = 4
# Pairs of rows that are tried as a sum: a layer adds its own bias to its own, and a large model has hundreds.
_MOST_SUMS = 4096


@dataclass(frozen=True)
class Traced:
    """What an initialiser should hold.

    Attributes:
        parameter: The parameter, or several joined by ``+``.
        how: How it is made of it.
        expected: What it should hold, in the initialiser's shape up to axes of size 1.
        rounding: How far an element may be off, relative to itself: 0 for a copy, a few roundings for a computation.
    """

    parameter: str
    how: str
    expected: Array
    rounding: float = 0.0


class Parameters:
    """A module's parameters and buffers, by the shapes in which a graph may hold them.

    Args:
        arrays: Name -> floating-point array of more than one element.
        computed: The same of what the module computes of them, which an exporter may have added up in another order.
        in_forward: The same of what it computes of them as it runs. An exporter folds that operator by operator; half
            precision is what one of them rounded to it.
    """

    def __init__(
        self,
        arrays: Mapping[str, Array],
        computed: Mapping[str, Array] | None = None,
        in_forward: Mapping[str, Array] | None = None,
    ) -> None:
        self._by_shape: dict[tuple[int, ...], list[Traced]] = defaultdict(list)
        for name, array in arrays.items():
            for how, view in _views(array):
                self._by_shape[view.shape].append(Traced(name, how, view))
        for name, array in (computed or {}).items():
            for how, view in _views(array):
                self._by_shape[view.shape].append(Traced(name, how, view, _SUMS * _epsilon(array)))
        for name, array in (in_forward or {}).items():
            rounding = 0.0 if array.dtype.itemsize < _SINGLE else _FOLDED * _epsilon(array)
            for how, view in _views(array):
                self._by_shape[view.shape].append(Traced(name, how, view, rounding))

    def equal(self, stored: Array) -> Traced | None:
        """Return the parameter that an initialiser holds exactly."""
        return next((each for each in self._like(stored) if _same(stored, each.expected)), None)

    def nearest(self, stored: Array, without: Collection[str]) -> Traced | None:
        """Return the parameter that an initialiser is nearest to, of those that are not in the graph as they are."""
        candidates = [each for each in self._like(stored) if each.parameter not in without]
        distances = [_distance(stored, each.expected) for each in candidates]
        best = min(range(len(candidates)), key=distances.__getitem__, default=None)
        return candidates[best] if best is not None and distances[best] <= _NEAR else None

    def computed(self, stored: Array, without: Collection[str] = ()) -> Traced | None:
        """Return what an initialiser is computed from, where most of its elements show it.

        Args:
            stored: The initialiser.
            without: Parameters that are in the graph as they are, of which it is no part.
        """
        array = stored.squeeze()
        return self._packed(array) or self._scaled(array) or self._sum(array) or self._part_of(array, without)

    def _like(self, stored: Array) -> list[Traced]:
        if stored.shape in self._by_shape:
            return self._by_shape[stored.shape]
        return self._by_shape.get(stored.squeeze().shape, [])  # a translation may give it axes to be broadcast along

    def _packed(self, stored: Array) -> Traced | None:
        """Recognise parameters side by side, as in packed gate-up and query-key-value projections."""
        for axis in range(stored.ndim):
            parts: list[Traced] = []
            start = 0
            while start < stored.shape[axis]:
                part = self._part(stored, axis, start, {each.parameter for each in parts})
                if part is None:
                    break
                parts.append(part)
                start += part.expected.shape[axis]
            if len(parts) > 1 and start == stored.shape[axis]:
                names = "+".join(part.parameter for part in parts)
                return Traced(
                    names,
                    "packed",
                    np.concatenate([part.expected for part in parts], axis),
                    max(part.rounding for part in parts),
                )
        return None

    def _part(self, stored: Array, axis: int, start: int, taken: Collection[str]) -> Traced | None:
        """Return the parameter that begins at a place, the best of those that fit there."""
        best: tuple[float, Traced] | None = None
        for shape, candidates in self._by_shape.items():
            end = start + (shape[axis] if len(shape) == stored.ndim else 0)
            others = [n for i, n in enumerate(shape) if i != axis], [n for i, n in enumerate(stored.shape) if i != axis]
            if len(shape) != stored.ndim or others[0] != others[1] or not start < end <= stored.shape[axis]:
                continue
            piece = stored.take(range(start, end), axis)
            for each in (candidate for candidate in candidates if candidate.parameter not in taken):
                distance = _distance(piece, each.expected)
                if distance <= _NEAR and (best is None or distance < best[0]):
                    best = distance, each
        return None if best is None else best[1]

    def _part_of(self, stored: Array, without: Collection[str]) -> Traced | None:
        """Recognise a part of a parameter, as a half of a packed gate-up projection whose halves are apart."""
        # A row is near any other that is near to ones: of rows, most numbers have to be the same.
        most = _NEAR if stored.ndim > 1 else 0.0
        near = [each for each, distance in self._parts(stored, without) if distance <= most]
        exact = next((each for each in near if _same(stored, each.expected)), None)
        return exact or (near[0] if len(near) == 1 else None)  # of several nobody can tell which was meant

    def _parts(self, stored: Array, without: Collection[str]) -> Iterator[tuple[Traced, float]]:
        """Yield the parts of parameters that have an initialiser's shape and may be near it, and how far they are."""
        for shape, candidates in self._by_shape.items():
            if len(shape) != stored.ndim or not stored.size:
                continue
            longer = [axis for axis, size in enumerate(stored.shape) if size != shape[axis]]
            if len(longer) != 1 or stored.shape[longer[0]] > shape[longer[0]]:
                continue
            axis, size = longer[0], stored.shape[longer[0]]
            starts = dict.fromkeys((*range(0, shape[axis] - size + 1, size), shape[axis] - size))
            for each in (candidate for candidate in candidates if candidate.parameter not in without):
                for start in starts:
                    piece = each.expected[(slice(None),) * axis + (slice(start, start + size),)]
                    if _may_be_near(stored, piece):
                        how = f"{start} to {start + size} of axis {axis}, {each.how}"
                        yield Traced(each.parameter, how, piece, each.rounding), _distance(stored, piece)

    def _scaled(self, stored: Array) -> Traced | None:
        """Recognise ``c * p`` and ``1 + p``; the outputs tell whether that is the right number."""
        rounding = 4 * _epsilon(stored)
        for each in self._by_shape.get(stored.shape, []):
            parameter = each.expected.astype(np.float64)
            plus_one = 1 + parameter
            if _mostly(stored, plus_one, rounding):
                return Traced(each.parameter, f"1 + it, {each.how}", plus_one, rounding)
            used = parameter != 0
            if not used.any():
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                number = float(np.median(stored.astype(np.float64)[used] / parameter[used]))
            if np.isfinite(number) and number != 0 and _mostly(stored, number * parameter, rounding):
                return Traced(each.parameter, f"times {number:.6g}, {each.how}", number * parameter, rounding)
        return None

    def _sum(self, stored: Array) -> Traced | None:
        """Recognise the sum of two rows, as of a bias and the one that is added after it."""
        rows = self._by_shape.get(stored.shape, [])
        if stored.ndim != 1 or len(rows) ** 2 > _MOST_SUMS:
            return None
        rounding = 4 * _epsilon(stored)
        for index, first in enumerate(rows):
            for second in rows[index:]:
                total = first.expected.astype(np.float64) + second.expected.astype(np.float64)
                if _mostly(stored, total, rounding):
                    return Traced(f"{first.parameter}+{second.parameter}", "their sum", total, rounding)
        return None


def _views(array: Array) -> Iterator[tuple[str, Array]]:
    squeezed = array.squeeze()
    yield "as it is", array
    if squeezed.shape != array.shape:
        yield "without axes of size 1", squeezed
    if squeezed.ndim == 2:
        yield "transposed", squeezed.T


def _same(stored: Array, parameter: Array) -> bool:
    """Whether two arrays hold the same numbers, whatever their dtypes: a weight stored in fewer bits is another."""
    return np.array_equal(stored.reshape(parameter.shape).astype(np.float64), parameter.astype(np.float64))


def _distance(stored: Array, parameter: Array) -> float:
    """Return the L2 distance relative to the parameter; one wild element does not hide the rest."""
    have, want = stored.reshape(parameter.shape).astype(np.float64), parameter.astype(np.float64)
    with np.errstate(invalid="ignore"):  # of infinities, which a mask is made of
        difference = np.abs(have - want)
    norm = float(np.linalg.norm(want))
    equal = float(np.mean(have == want)) if difference.size else 0.0
    if equal > 0.5 and norm > 0:
        return 0.0
    distance = float(np.linalg.norm(difference)) / norm if norm else float(difference.max(initial=0.0))
    return distance if np.isfinite(distance) else np.inf


def _may_be_near(stored: Array, parameter: Array) -> bool:
    """Look at a few elements only: most pairs are far apart, and matrices are large. Flat ones say nothing."""
    step = max(1, stored.size // _LOOKED_AT)
    step += step > 1 and step % stored.shape[-1] == 0  # which would look at one column
    have, want = (array.reshape(-1)[::step].astype(np.float64) for array in (stored, parameter))
    usual = float(np.median(np.abs(want)))
    return bool(usual > 0 and want.min() != want.max() and np.median(np.abs(have - want)) <= usual / 2)


def _mostly(stored: Array, expected: Array, rounding: float) -> bool:
    """Whether most elements are what is expected, and they are not all alike: ones are a multiple of anything flat."""
    near = np.abs(stored.astype(np.float64) - expected) <= rounding * np.abs(expected)
    varied = expected[near]
    return bool(near.mean() > 0.5 and varied.size and varied.min() != varied.max())


def _epsilon(array: Array) -> float:
    return float(float_info(array.dtype).eps)
