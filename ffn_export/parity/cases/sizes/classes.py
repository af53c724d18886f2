"""Sizes of every class along every axis, alone and in pairs, which a default sweep tries after its core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product

from ffn_export.core.tensor_spec import Dim

# Two, small even and odd sizes, powers of two and neighbours of them, and a round number that is no power of two.
CLASSES = (2, 4, 7, 8, 16, 33, 64, 100, 128)
_SMALL = (2, 1, 3)


def of_axis(dim: Dim) -> tuple[int, ...]:
    """Return the sizes that an axis allows: one of every class, and the last two of a bounded axis."""
    end = () if dim.maximum is None else (dim.maximum - 1, dim.maximum)
    return tuple(size for size in dict.fromkeys((*CLASSES, *end)) if size > 0 and dim.clamp(size) == size)


def alone(dims: Sequence[Dim]) -> Iterator[dict[str, int]]:
    """Yield each size of each axis, with the other axes small."""
    for dim in dims:
        for index, size in enumerate(of_axis(dim)):
            yield {**_others(dims, index), dim.name: size}


def in_pairs(dims: Sequence[Dim], work: Callable[[Mapping[str, int]], int]) -> list[dict[str, int]]:
    """Return each pair of sizes of two axes, cheapest first."""
    pairs = [
        {**_others(dims, 0), one.name: size, other.name: beside}
        for one, other in combinations(dims, 2)
        for size, beside in product(of_axis(one), of_axis(other))
    ]
    return sorted(pairs, key=work)


def _others(dims: Sequence[Dim], turn: int) -> dict[str, int]:
    return {dim.name: dim.clamp(_SMALL[(turn + place) % len(_SMALL)]) for place, dim in enumerate(dims)}
