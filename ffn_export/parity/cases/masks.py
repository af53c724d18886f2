"""Kinds of masks that inputs are drawn as, which differ in the place of the padding.

A mask is 1 for a token and 0 for padding, along its last axis. A declared mask has at least one 1 in every row.

Rows without any 1 are a separate kind, in which only the other rows of the batch are judged. Softmax over no keys is
NaN in some kernels, 0 or a mean in others, and no caller reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array

WITHOUT_KEYS = "mask with a row without keys"
ALL_ONES = "mask of ones"

_Drawer = Callable[[tuple[int, ...], np.random.Generator], Array]


def _counts(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return the number of tokens in each row: at least one, and fewer than all if possible."""
    return rng.integers(1, max(shape[-1], 2), size=(*shape[:-1], 1))


def _one_key(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    chosen = rng.integers(shape[-1], size=(*shape[:-1], 1))
    mask: Array = np.arange(shape[-1]) == chosen
    return mask


def _right_padded(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    mask: Array = np.arange(shape[-1]) < _counts(shape, rng)
    return mask


def _left_padded(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return _right_padded(shape, rng)[..., ::-1]


def _with_holes(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return rows that begin and end with a 1 and, if longer than 2, have a 0 in between."""
    mask = rng.random(shape) < 0.5
    mask[..., [0, -1]] = True
    if shape[-1] > 2:
        hole = rng.integers(1, shape[-1] - 1, size=(*shape[:-1], 1))
        np.put_along_axis(mask, hole, values=False, axis=-1)
    return mask


def _without_keys(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    mask = _with_holes(shape, rng)
    mask[:1] = False
    return mask


MASKS: Mapping[str, _Drawer] = {
    ALL_ONES: lambda shape, _: np.ones(shape, dtype=bool),
    "mask of one key": _one_key,
    "mask padded on the left": _left_padded,
    "mask padded on the right": _right_padded,
    "mask with holes": _with_holes,
    WITHOUT_KEYS: _without_keys,
}


def is_mask(spec: TensorSpec) -> bool:
    """Whether an input is drawn as a mask: it is declared as one, or is boolean and has several axes."""
    return spec.is_mask or (spec.dtype == "bool" and len(spec.dims) > 1)


def kinds(specs: Sequence[TensorSpec]) -> tuple[str, ...]:
    """Return the kinds of masks for the inputs. Rows without keys require that every mask is declared, in one batch."""
    masks = [spec for spec in specs if is_mask(spec)]
    if not masks:
        return ()
    of_one_batch = all(spec.is_mask and len(spec.dims) > 1 and 0 in spec.symbolic for spec in masks) and (
        len({spec.symbolic[0].name for spec in masks}) == 1
    )
    return tuple(kind for kind in MASKS if of_one_batch or kind != WITHOUT_KEYS)


def all_seen(specs: Sequence[TensorSpec], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return inputs under masks of ones."""
    return {**feeds, **{spec.name: np.ones_like(feeds[spec.name]) for spec in specs if spec.is_mask}}


def draw(spec: TensorSpec, drawn: Array, kind: str, seed: int) -> Array:
    """Return a mask of this kind with the shape and dtype of a drawn input."""
    if not drawn.size or not drawn.ndim:
        return drawn
    return MASKS[kind](drawn.shape, np.random.default_rng([seed, *spec.name.encode()])).astype(drawn.dtype)


def with_keys(specs: Sequence[TensorSpec], sizes: Mapping[str, int], output: Array) -> Array:
    """Return an output with zeros for rows without keys, which are not judged.

    The first row along the first axis of the masks has no key. An output without an axis of that size depends on all
    rows and becomes zero everywhere.
    """
    batch = next(spec.symbolic[0].name for spec in specs if spec.is_mask)
    axes = [axis for axis, size in enumerate(output.shape) if size == sizes[batch]]
    judged = output.copy()
    judged[(*(slice(None),) * axes[0], slice(0, 1)) if axes else ()] = 0
    return judged
