"""Statistics of activations, from the user's samples or drawn inputs: a batch of rows at a time."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ffn_export.core.drawing import draw_all, fit_sizes
from ffn_export.core.tapped_graphs import observed
from ffn_export.core.tensor_spec import TensorSpec, merge_dims
from ffn_export.core.types import Array
from ffn_export.fusion.pipeline import sorted_copy
from ffn_export.parity.cases.masks import all_seen
from ffn_export.quantization.products import LARGEST
from ffn_export.quantization.smoothing import Channels
from ffn_export.runtimes.in_place import load_in_place

_ROWS = 8
# Sizes of drawn inputs: of the first axis and of the others. More of them find about the same channels.
_DRAWN = (8, 32)
# Rows of a value that are kept, about.
_KEPT = 128


class Whole(dict[str, Array]):
    """Samples that are one input of the model, such as the tokens of one text: they run at once."""


def drawn_inputs(specs: Sequence[TensorSpec], seed: int = 0) -> dict[str, Array]:
    """Return inputs of some hundred tokens without padding, on which channels are measured without samples."""
    dims = list(merge_dims(specs).values())
    wanted = {dim.name: _DRAWN[min(place, 1)] for place, dim in enumerate(dims)}
    return all_seen(specs, draw_all(specs, fit_sizes(dims, wanted), seed))


def batches(samples: Mapping[str, Array], model: ir.Model) -> Iterator[dict[str, Array]]:
    """Yield the samples some rows at a time.

    1. A first axis that is symbolic is cut, a few rows at a time. Inputs without it are given whole in each part.
       Positions that ``attention_mask`` leaves out at the end of all rows of a part are cut, too, if lengths are free.
    2. First axes that are fixed are cut at their sizes.
    3. Samples are given whole if inputs have first axes of several lengths, or one that is another axis of an input,
       or if they are :class:`Whole`.

    Args:
        samples: Input name -> array.
        model: The model that reads them.
    """
    axes = {str(value.name): _axes(value) for value in model.graph.inputs if value.name in samples}
    rows = {} if isinstance(samples, Whole) else _rows_at_once(axes)
    has_free_length = not any(isinstance(axis, int) for each in axes.values() for axis in each[1:2])
    counts = {samples[name].shape[0] / count for name, count in rows.items()}
    if len(counts) != 1:
        yield dict(samples)
        return
    for part in range(max(math.ceil(counts.pop()), 1)):
        cut = {name: samples[name][part * count : (part + 1) * count] for name, count in rows.items()}
        feeds = {**samples, **cut}
        yield _without_padding(feeds) if has_free_length else feeds


def _rows_at_once(axes: Mapping[str, Sequence[int | str | None]]) -> dict[str, int]:
    """Return how many rows of the first axis of an input are one part; inputs that are given whole are left out."""
    inner = {name for each in axes.values() for axis in each[1:] if isinstance(axis, str) for name in axis.split("+")}
    firsts = {name: each[0] for name, each in axes.items() if each}
    fixed = {name: first for name, first in firsts.items() if isinstance(first, int) and first}
    if len(fixed) == len(axes):
        return fixed
    named = {name: first for name, first in firsts.items() if not isinstance(first, int)}
    return {} if inner & set(named.values()) else dict.fromkeys(named, _ROWS)


def _axes(value: ir.Value) -> list[int | str | None]:
    """Return the size or the name of each axis of an input; None if it has neither."""
    return [
        axis if isinstance(axis, int) else None if axis.value is None else str(axis.value).replace(" ", "")
        for axis in value.shape or ()
    ]


def _without_padding(feeds: dict[str, Array]) -> dict[str, Array]:
    real = _real(feeds)
    if real is None or not real.any() or any(array.shape != real.shape for array in feeds.values()):
        return feeds
    length = int(np.flatnonzero(real.any(axis=0))[-1]) + 1
    return {name: array[:, :length] for name, array in feeds.items()}


def _real(feeds: Mapping[str, Array]) -> Array | None:
    """Return which positions ``attention_mask`` leaves; None if it says nothing of padding.

    A mask of floats that is added to scores has 0 at real positions and large negative numbers at others: its rows
    are all judged. Zeros alone are such a mask, too.
    """
    mask = feeds.get("attention_mask")
    if mask is None or mask.ndim != 2 or not ((mask == 0) | (mask == 1)).all():
        return None
    if mask.dtype.kind not in "iub" and not mask.any():
        return None
    return mask.astype(bool)


def real_rows(feeds: Mapping[str, Array], array: Array) -> Array:
    """Return an array as rows, without those that a mask of the same positions leaves out as padding."""
    real = _real(feeds) if array.ndim == 3 else None
    if real is not None and array.shape[:2] == real.shape:
        rows: Array = array[real]
        return rows
    return array.reshape(-1, array.shape[-1] if array.ndim else 1)


def statistics(
    model: ir.Model, names: Collection[str], samples: Mapping[str, Array], threads: int = 1
) -> dict[str, Channels]:
    """Return the statistics of values of the main graph; a value of no finite number has none."""
    found: dict[str, _Sums] = {}
    for name, rows, parts in watched(model, names, samples, threads):
        found.setdefault(name, _Sums(rows.shape[1])).add(rows, -(-_KEPT // parts))
    return {name: sums.channels() for name, sums in found.items()}


def watched(
    model: ir.Model, names: Collection[str], samples: Mapping[str, Array], threads: int = 1
) -> Iterator[tuple[str, Array, int]]:
    """Run the samples, and yield the rows of each value by its name, beside the number of batches.

    Rows with NaN, infinity or numbers whose products would not be finite are left out.
    """
    if not names:
        return
    parts = list(batches(samples, model))
    runner = load_in_place(observed(sorted_copy(model) or model, names), threads)
    for feeds in parts:
        seen = {**feeds, **runner.run(feeds)}
        for name in names:
            rows = real_rows(feeds, seen[name]).astype(np.float32) if name in seen else np.zeros((0, 1), np.float32)
            rows = rows[(rows.min(axis=1) >= -LARGEST) & (rows.max(axis=1) <= LARGEST)]  # neither is true of NaN
            if len(rows):
                yield name, rows, len(parts)
        del seen, rows  # before the next ones are computed


class _Sums:
    """Statistics of the rows so far."""

    def __init__(self, width: int) -> None:
        self._lowest = np.full(width, np.inf, np.float32)
        self._highest = np.full(width, -np.inf, np.float32)
        self._squares = np.zeros(width, np.float32)
        self._total = np.zeros(width, np.float32)
        self._count = 0
        self._kept: list[Array] = []

    def add(self, rows: Array, keep: int) -> None:
        """Add rows, and keep a few that lie evenly among them."""
        np.minimum(self._lowest, rows.min(axis=0), out=self._lowest)
        np.maximum(self._highest, rows.max(axis=0), out=self._highest)
        self._squares += np.square(rows).sum(axis=0)
        self._total += rows.sum(axis=0)
        self._count += len(rows)
        self._kept.append(rows[:: -(-len(rows) // keep)].copy())

    def channels(self) -> Channels:
        """Return the statistics."""
        squares, means = (each / self._count for each in (self._squares, self._total))
        return Channels(self._lowest, self._highest, squares, means, np.concatenate(self._kept), self._count)
