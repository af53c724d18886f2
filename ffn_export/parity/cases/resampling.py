"""Draws floats of the size that the user's samples have.

A model that is quantised on samples holds numbers of their size. Standard normal numbers say nothing about it where the
samples are pixels from 0 to 255, or where some channels are a hundred times as large as others. With the samples at
hand, drawn inputs are parts of them. Without them, their range is known, which a bundle records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array


def resampled(
    specs: Sequence[TensorSpec], drawn: Mapping[str, Array], samples: Mapping[str, Array], seed: int
) -> dict[str, Array]:
    """Return drawn inputs whose floats are parts of the samples.

    A part is what the input has at one position of its symbolic axes: a token of ``[batch,seq,768]``, a picture of
    ``[batch,3,224,224]``. Parts that are not finite are left out. An input without parts stays as it is drawn.

    Args:
        specs: The inputs.
        drawn: Input name -> array of the shape that is wanted.
        samples: Input name -> array of the user.
        seed: Seed of the order.
    """
    rng = np.random.default_rng(seed)
    return {spec.name: _resampled(spec, drawn[spec.name], samples[spec.name], rng) for spec in specs}


def _resampled(spec: TensorSpec, drawn: Array, sample: Array, rng: np.random.Generator) -> Array:
    if not spec.is_floating or not drawn.size or not sample.size:
        return drawn
    fixed = [axis for axis, dim in enumerate(spec.dims) if isinstance(dim, int)]
    open_axes = [axis for axis in range(len(spec.dims)) if axis not in fixed]
    order = (*open_axes, *fixed)
    shape = tuple(drawn.shape[axis] for axis in order)
    parts = sample.transpose(order).reshape(-1, math.prod(shape[len(open_axes) :]))
    parts = parts[np.isfinite(parts.astype(np.float32)).all(axis=1)]
    if not len(parts):
        return drawn
    wanted = math.prod(shape[: len(open_axes)])
    chosen: Array = parts[rng.integers(len(parts), size=wanted)].reshape(shape).transpose(np.argsort(order))
    return chosen.astype(drawn.dtype)


def with_ranges(specs: Sequence[TensorSpec], samples: Mapping[str, Array]) -> tuple[TensorSpec, ...]:
    """Return the inputs with ranges of floats: uniform numbers of a range have the mean and deviation of the samples.

    A range ends where the samples do. It is rounded to three digits. An input that has a range keeps it, and one whose
    samples are all equal or not finite has none.

    Args:
        specs: The inputs.
        samples: Input name -> array of the user.
    """
    return tuple(_with_range(spec, samples[spec.name]) for spec in specs)


def _with_range(spec: TensorSpec, sample: Array) -> TensorSpec:
    if not spec.is_floating or spec.value_range is not None:
        return spec
    numbers = sample.astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return spec
    mean, reach = float(numbers.mean()), math.sqrt(3) * float(numbers.std())
    ends = max(mean - reach, float(numbers.min())), min(mean + reach, float(numbers.max()))
    low, high = (float(f"{end:.3g}") for end in ends)
    return replace(spec, value_range=(low, high)) if low < high else spec
