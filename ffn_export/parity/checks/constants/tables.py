"""Trace integer and boolean constants: indices, positions and masks, which must be exact."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ffn_export.core.types import Array
from ffn_export.parity.checks.constants.combined import part_of
from ffn_export.parity.checks.constants.layouts import Layouts
from ffn_export.parity.checks.constants.rows import RowIndex
from ffn_export.parity.checks.constants.traced import Traced, same

# Smallest share of equal elements for a match. It is larger for masks, which resemble each other: a mask of a causal
# window largely equals a causal mask.
_MOSTLY, _MOSTLY_OF_MASKS = 0.5, 0.95


class Tables:
    """The integer and boolean buffers of a module, and float buffers with two numbers, such as 0 and -inf."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._integers, self._masks = Layouts(), Layouts()
        for name, array in arrays.items():
            mask = as_mask(array)
            if mask is not None:
                self._masks.add(name, mask)
                self._masks.add(f"not {name}", ~mask)
            elif array.dtype.kind in "iu":
                self._integers.add(name, array)
        self._integer_rows, self._mask_rows = RowIndex(self._integers), RowIndex(self._masks)

    def traced(self, stored: Array, without: Collection[str] = ()) -> tuple[Array, Traced] | None:
        """Return a constant in the form that is compared, and the table that it should hold, or None."""
        mask = as_mask(stored)
        layouts, rows = (self._integers, self._integer_rows) if mask is None else (self._masks, self._mask_rows)
        if mask is None and stored.dtype.kind not in "iu":
            return None
        array = stored if mask is None else mask
        part = layouts.equal(array) or part_of(array.squeeze(), layouts, ())
        if part is not None and (same(array, part.expected) or (mask is None and array.squeeze().ndim == 1)):
            return array, part
        found = _alike(array, layouts, without, _MOSTLY if mask is None else _MOSTLY_OF_MASKS)
        if found is None and mask is None:
            found = rows.traced(array)
        return None if found is None else (array, found)


def as_mask(array: Array) -> Array | None:
    """Return where an array of exactly two distinct numbers has the larger one, or None for any other array."""
    if array.dtype.kind == "b":
        return array
    if array.size < 2:
        return None
    with np.errstate(invalid="ignore"):  # NaN in bfloat16
        smallest, largest = array.min(), array.max()
    if not smallest < largest:
        return None
    found: Array = array == largest
    return found if bool((found | (array == smallest)).all()) else None


def _alike(stored: Array, layouts: Layouts, without: Collection[str], least: float) -> Traced | None:
    views = [view for view in layouts.shapes.get(stored.squeeze().shape, []) if view.parameter not in without]
    shares = [float(np.mean(view.expected == stored.squeeze())) for view in views]
    best = int(np.argmax(shares)) if shares else None
    return views[best] if best is not None and shares[best] > least else None
