"""Recognise constants made of several parameters or a part of one: packed, sliced, summed or multiplied."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import combinations_with_replacement

import numpy as np

from ffn_export.core.types import Array
from ffn_export.parity.checks.constants.layouts import Layouts
from ffn_export.parity.checks.constants.traced import (
    NEAR,
    Traced,
    distance,
    epsilon,
    magnitude,
    mostly,
    places,
    same,
    sampled,
)

# Largest number of pairs of vectors to try as a sum. A large model has hundreds of biases.
_MOST_SUMS = 4096
_LOOKED_AT = 8  # sampled rows, columns or elements, before a whole product is computed
_MOST_OPERATIONS = 2**36  # multiplications of all sampled products
# Rounding error of a sum of products in any order, relative to the sum of the magnitudes.
_FOLDED = 2.0**-18


def combined(stored: Array, layouts: Layouts, without: Collection[str]) -> Traced | None:
    """Return the parameters that a constant is made of, if most of its elements agree, or None.

    Args:
        stored: The constant.
        layouts: The parameters.
        without: Parameters that the graph holds exactly, which are not matched by nearness.
    """
    array = stored.squeeze()
    return (
        packed(array, layouts, without)
        or _sum(array, layouts)
        or part_of(array, layouts, without)
        or _folded_bias(array, layouts)
        or _product(array, layouts)
    )


def packed(stored: Array, layouts: Layouts, without: Collection[str] = ()) -> Traced | None:
    """Recognise parameters side by side or stacked: packed gate-up and query-key-value projections, experts."""
    for axis in range(stored.ndim):
        sizes = _sizes_along(stored, axis, layouts)
        parts: list[Traced] = []
        start = 0
        while start < stored.shape[axis]:
            pieces = (stored.take(range(start, start + n), axis) for n in sizes if start + n <= stored.shape[axis])
            found = next(((piece, part) for piece in pieces if (part := layouts.one(piece, without)) is not None), None)
            if found is None:
                break
            piece, part = found
            parts.append(Traced(part.parameter, part.how, part.expected.reshape(piece.shape), part.rounding))
            start += piece.shape[axis]
        if len(parts) > 1 and start == stored.shape[axis]:
            names = "+".join(dict.fromkeys(part.parameter for part in parts))
            expected = np.concatenate([part.expected for part in parts], axis)
            return Traced(names, "packed", expected, max(part.rounding for part in parts))
    return None


def _sizes_along(stored: Array, axis: int, layouts: Layouts) -> list[int]:
    """Return the sizes along an axis of parameters that agree in the other axes, longest first."""
    rest = tuple(size for i, size in enumerate(stored.shape) if i != axis)
    along = {shape[axis] for shape in layouts.shapes if len(shape) == stored.ndim and _without(shape, axis) == rest}
    stacked = {1} if rest in layouts.shapes else set()
    return sorted((size for size in along | stacked if 0 < size < stored.shape[axis]), reverse=True)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def part_of(stored: Array, layouts: Layouts, without: Collection[str]) -> Traced | None:
    """Recognise a slice of a parameter, such as one half of a packed gate-up projection that was split."""
    # A vector near ones is near any other such vector, so most numbers of a vector must be equal.
    most = NEAR if stored.ndim > 1 else 0.0
    near = [each for each, apart in _parts(stored, layouts, without) if apart <= most]
    exact = next((each for each in near if same(stored, each.expected)), None)
    return exact or (near[0] if len(near) == 1 else None)  # several near slices are ambiguous


def _parts(stored: Array, layouts: Layouts, without: Collection[str]) -> Iterator[tuple[Traced, float]]:
    """Yield the slices of parameters that have a constant's shape and may be near it, with their distances."""
    for shape, candidates in layouts.shapes.items():
        if len(shape) != stored.ndim or not stored.size:
            continue
        longer = [axis for axis, size in enumerate(stored.shape) if size != shape[axis]]
        if len(longer) != 1 or stored.shape[longer[0]] > shape[longer[0]]:
            continue
        axis, size = longer[0], stored.shape[longer[0]]
        usual = (*range(0, shape[axis] - size + 1, size), shape[axis] - size)
        for each in (candidate for candidate in candidates if candidate.parameter not in without):
            for start in dict.fromkeys((*usual, *_starts(stored, each.expected))):
                piece = each.expected[(slice(None),) * axis + (slice(start, start + size),)]
                if _may_be_near(stored, piece):
                    how = f"{start} to {start + size} of axis {axis}, {each.how}"
                    yield Traced(each.parameter, how, piece, each.rounding), distance(stored, piece)


def _starts(stored: Array, whole: Array) -> Iterator[int]:
    """Yield the starts of the slices of a vector that begin and end as a constant does; rows have an index for this."""
    if stored.ndim == 1:
        ends = np.flatnonzero(whole[len(stored) - 1 :] == stored[-1])
        yield from (int(start) for start in ends if whole[start] == stored[0])


def _may_be_near(stored: Array, piece: Array) -> bool:
    """Compare a few elements, since most pairs are far apart and matrices are large. Flat arrays never match."""
    have, want = sampled(stored), sampled(piece)
    usual = float(np.median(np.abs(want)))
    return bool(usual > 0 and want.min() != want.max() and np.median(np.abs(have - want)) <= usual / 2)


def _sum(stored: Array, layouts: Layouts) -> Traced | None:
    """Recognise the sum of two vectors, such as a bias and another one added after it."""
    rows = layouts.shapes.get(stored.shape, [])
    if stored.ndim != 1 or len(rows) ** 2 > _MOST_SUMS:
        return None
    rounding = 4 * epsilon(stored)
    for first, second in combinations_with_replacement(rows, 2):
        total = first.expected.astype(np.float64) + second.expected.astype(np.float64)
        if mostly(stored, total, rounding):
            return Traced(f"{first.parameter}+{second.parameter}", "their sum", total, rounding)
    return None


def _folded_bias(stored: Array, layouts: Layouts) -> Traced | None:
    """Recognise ``W b + c`` and ``W b``: the bias ``b`` of a norm folded through a linear layer."""
    if stored.ndim != 1:
        return None
    looked = places(stored.size, _LOOKED_AT)
    target = stored[looked].astype(np.float64)
    own = layouts.shapes.get(stored.shape, [])
    rows = [each.expected for each in own]
    biases = np.stack([np.zeros(stored.shape), *rows]).astype(np.float64)
    for shape, matrices in _matrices(layouts, lambda shape: shape[0] == stored.size):
        vectors = layouts.shapes.get(shape[1:], [])
        if not vectors or len(vectors) * len(biases) * len(matrices) > 2**22:
            continue
        stack = np.stack([each.expected for each in vectors]).astype(np.float64)
        for matrix in matrices:
            some = matrix.expected[looked].astype(np.float64)
            products, terms = some @ stack.T, np.abs(some) @ np.abs(stack).T
            left = target[:, None, None] - products[:, None, :] - biases.T[looked][:, :, None]
            fits = (np.abs(left) <= _FOLDED * (terms[:, None, :] + np.abs(target)[:, None, None])).mean(axis=0) > 0.5
            for bias, vector in zip(*np.nonzero(fits), strict=True):
                whole = matrix.expected.astype(np.float64)
                expected = whole @ stack[vector] + biases[bias]
                absolute = _FOLDED * (magnitude(np.abs(whole) @ np.abs(stack[vector])) + magnitude(biases[bias]))
                if mostly(stored, expected, 0.0, absolute):
                    names = [matrix.parameter, vectors[vector].parameter, *[own[b - 1].parameter for b in [bias] if b]]
                    return Traced("+".join(names), "their product, summed", expected, 0.0, absolute)
    return None


def _product(stored: Array, layouts: Layouts) -> Traced | None:
    """Recognise the product of two matrices, such as two consecutive linear layers."""
    if stored.ndim != 2 or min(stored.shape) < _LOOKED_AT:
        return None
    rows, columns = (places(size, _LOOKED_AT) for size in stored.shape)
    target = stored[np.ix_(rows, columns)].astype(np.float64)
    for shape, lefts in _matrices(layouts, lambda shape: shape[0] == stored.shape[0]):
        rights = layouts.shapes.get((shape[1], stored.shape[1]), [])
        if not rights or len(lefts) * len(rights) * _LOOKED_AT**2 * shape[1] > _MOST_OPERATIONS:
            continue
        some_left = np.stack([each.expected[rows] for each in lefts]).astype(np.float64)
        some_right = np.stack([each.expected[:, columns] for each in rights]).astype(np.float64)
        for index, left in enumerate(some_left):
            apart = np.abs(left @ some_right - target)
            fits = (apart <= _FOLDED * (np.abs(left) @ np.abs(some_right))).mean(axis=(1, 2)) > 0.5
            for right in np.flatnonzero(fits):
                one, other = (m.expected.astype(np.float64) for m in (lefts[index], rights[right]))
                expected = one @ other
                absolute = _FOLDED * magnitude(np.abs(one) @ np.abs(other))
                if mostly(stored, expected, 0.0, absolute):
                    names = f"{lefts[index].parameter}+{rights[right].parameter}"
                    return Traced(names, "their product", expected, 0.0, absolute)
    return None


def _matrices(
    layouts: Layouts, wanted: Callable[[tuple[int, ...]], bool]
) -> Iterator[tuple[tuple[int, ...], list[Traced]]]:
    return ((shape, views) for shape, views in list(layouts.shapes.items()) if len(shape) == 2 and wanted(shape))
