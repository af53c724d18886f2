"""Longer inputs, on which a sum over tokens passes a threshold that the sizes of the sweep leave on one side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ffn_export.core.drawing import draw_all, fit_sizes
from ffn_export.core.tensor_spec import TensorSpec, merge_dims
from ffn_export.core.types import Array
from ffn_export.parity.cases import masks
from ffn_export.parity.cases.sizes.work import Work

_SIZES = (64, 512, 4096)
_BEHIND = 2  # a count of ones, or one less, is on both sides of a limit at this size behind it


def longer(
    specs: Sequence[TensorSpec],
    base: Mapping[str, int],
    seed: int,
    costs: Sequence[tuple[Work, int]],
    limit: float | str,
) -> Iterator[Mapping[str, Array]]:
    """Yield inputs with one axis at a larger size: under masks of ones, and under masks of one key.

    Args:
        specs: The inputs.
        base: Sizes of the other axes.
        seed: Seed of the drawn inputs.
        costs: Work of what runs on the inputs, each with the largest that is allowed.
        limit: The threshold. A size just behind it is tried, which may cost less than the next larger one.
    """
    own = [int(limit) + _BEHIND] if isinstance(limit, float) and 0 < limit < _SIZES[-1] else []
    dims = merge_dims(specs).values()
    masked = [spec.name for spec in specs if spec.is_mask]
    for size in sorted({*_SIZES, *own}):
        for dim in dims:
            sizes = fit_sizes(dims, {**base, dim.name: size})
            if any(work.of_case(specs, sizes) > most for work, most in costs):
                continue
            drawn = draw_all(specs, sizes, seed)
            yield masks.all_seen(specs, drawn)
            if masked:
                yield drawn | {name: _one_key(drawn[name]) for name in masked}


def _one_key(mask: Array) -> Array:
    found = np.zeros_like(mask)
    found[..., :1] = 1
    return found
