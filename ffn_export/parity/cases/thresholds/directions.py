"""Inputs for the search of thresholds: larger, smaller, of one sign, with peaks, or along the direction of a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from ffn_export.core.drawing import float_info, is_floating
from ffn_export.core.types import Array

Feeds = Mapping[str, Array]

_FAR = (1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e8, 1e10, 1e13, 1e16, 1e20, 1e25, 1e31, 1e36)
_NEAR = (1e-2, 1e-4, 1e-7, 1e-12, 1e-20, 1e-30)
_MOST = 4  # elements whose directions are tried, those first that change most
_PEAK = 1e4  # large enough that the rest of a normalised row vanishes


def scaled(feeds: Feeds) -> Iterator[Feeds]:
    """Yield the floating-point inputs at other scales, nearest first, with mixed signs and with one sign."""
    for factor in (*_FAR, *_NEAR):
        for signed in _SIGNS:
            yield _each(feeds, partial(signed, factor))


_SIGNS: tuple[Callable[[float, Array], Array], ...] = (
    lambda factor, x: factor * x,
    lambda factor, x: -factor * x,
    lambda factor, x: factor * np.abs(x),
    lambda factor, x: -factor * np.abs(x),
)


def peaks(feeds: Feeds) -> Iterator[Feeds]:
    """Yield rows in which one element is far above or below the rest; its place differs between rows."""
    for size in (_PEAK, -_PEAK):
        yield _each(feeds, partial(_peaked, size))


def _peaked(size: float, x: Array) -> Array:
    changed = x.copy()
    rows = changed.reshape(-1, x.shape[-1]) if x.ndim else changed.reshape(1, 1)
    for index, row in enumerate(rows):
        row[index * row.size // len(rows)] = size
    return changed


def along(rows: Array, distances: Array, above: bool) -> Iterator[Array]:
    """Yield directions of a row along which an element computed from it grows or shrinks.

    The directions come from a linear regression: for normal rows, the covariance of a row with the element.

    Args:
        rows: Normal rows.
        distances: Values computed from each row.
        above: Whether the element should grow.
    """
    distances = distances[:, np.isfinite(distances).all(axis=0)]  # a weight that is NaN leaves others
    centred = distances - distances.mean(axis=0)
    slopes = rows.T @ centred / len(rows)  # [features, elements]
    sizes = np.linalg.norm(slopes, axis=0)
    reach = sizes * np.sqrt(rows.shape[1]) + (1 if above else -1) * distances.mean(axis=0)
    for element in np.argsort(-reach)[:_MOST]:
        if sizes[element] > 0:
            direction = slopes[:, element] / sizes[element] * np.sqrt(rows.shape[1])
            yield direction if above else -direction


def directed(feeds: Feeds, name: str, direction: Array) -> Iterator[Feeds]:
    """Yield inputs whose rows are one direction plus a little noise, at several scales."""
    for factor in (1.0, 30.0, 1e3):
        yield {**feeds, name: _cast((direction + 0.1 * feeds[name].astype(np.float64)) * factor, feeds[name])}


def _each(feeds: Feeds, change: Callable[[Array], Array]) -> dict[str, Array]:
    return {
        name: _cast(change(array.astype(np.float64)), array) if is_floating(array) else array
        for name, array in feeds.items()
    }


def _cast(wide: Array, like: Array) -> Array:
    """Cast numbers to the dtype of an input, clamped to its finite range."""
    most = float(float_info(like.dtype).max)
    narrow: Array = np.clip(wide, -most, most).astype(like.dtype)
    return narrow


def around(limits: Sequence[float], like: Array, seed: int) -> Array:
    """Return numbers of the magnitude of some limits. A quarter are the limits, adjacent numbers, or numbers nearby."""
    rng = np.random.default_rng(seed)
    size = float(np.sqrt(max(map(abs, limits)) * min(map(abs, limits))))
    wide = like.astype(np.float64) * (size or 1.0)
    result = _cast(wide, like)
    telling = np.array([number for limit in limits for number in _beside(limit)])
    places = rng.permutation(result.size)[: max(result.size // 4, min(result.size, telling.size))]
    chosen = np.resize(rng.permutation(telling), places.size)
    exact = _cast(chosen, like)
    step = rng.integers(-1, 2, places.size)  # previous number, the number itself, next number
    toward = np.where(step < 0, -np.inf, np.inf).astype(like.dtype)
    result.flat[places] = np.where(step == 0, exact, np.nextafter(exact, toward))
    return result


def _beside(limit: float) -> tuple[float, ...]:
    """Return a limit several times, since it matters most, numbers near it, and both with the other sign."""
    if not limit:
        return (0.0, -1.0, 1.0)
    return limit, limit, limit, -limit, 0.5 * limit, 0.9 * limit, 1.1 * limit, 2 * limit, -0.9 * limit, -1.1 * limit
