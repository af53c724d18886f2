"""Statistics of activations, from the user's samples or drawn inputs: a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ffn_export.core.drawing import draw_all, fit_sizes
from ffn_export.core.tensor_spec import TensorSpec, merge_dims
from ffn_export.core.types import Array
from ffn_export.fusion.pipeline import sorted_copy
from ffn_export.quantization.smoothing import Channels
from ffn_export.runtimes.in_place import load_in_place

_ROWS = 8
# Sizes of drawn inputs: of the first axis and of the others. More of them find about the same channels.
_DRAWN = (8, 32)
# Rows of a value that are kept, about.
_KEPT = 128


def drawn_inputs(specs: Sequence[TensorSpec], seed: int = 0) -> dict[str, Array]:
    """Return inputs of some hundred tokens without padding, on which channels are measured without samples."""
    dims = list(merge_dims(specs).values())
    wanted = {dim.name: _DRAWN[min(place, 1)] for place, dim in enumerate(dims)}
    drawn = draw_all(specs, fit_sizes(dims, wanted), seed)
    return drawn | {spec.name: np.ones_like(drawn[spec.name]) for spec in specs if spec.is_mask}


def batches(samples: Mapping[str, Array], inputs: Sequence[ir.Value]) -> Iterator[dict[str, Array]]:
    """Yield the samples a few rows of the first axis at a time, or whole if the model's inputs have no axis for that.

    Positions that ``attention_mask`` leaves out at the end of all rows are cut.

    Args:
        samples: Input name -> array.
        inputs: The inputs of the model.
    """
    sizes = {array.shape[0] if array.ndim else 0 for array in samples.values()}
    if len(sizes) != 1 or not _have_rows(inputs):
        yield dict(samples)
        return
    for start in range(0, max(sizes.pop(), 1), _ROWS):
        yield _without_padding({name: array[start : start + _ROWS] for name, array in samples.items()})


def _have_rows(inputs: Sequence[ir.Value]) -> bool:
    """Whether the inputs share a first axis of any size, which is no other axis of them."""
    shapes = [[getattr(dim, "value", dim) for dim in value.shape] for value in inputs if value.shape]
    first = {shape[0] for shape in shapes} - {None}
    others = {name for shape in shapes for dim in shape[1:] for name in str(dim).split("+")}
    return len(first) <= 1 and not any(isinstance(dim, int) or dim in others for dim in first)


def _without_padding(feeds: dict[str, Array]) -> dict[str, Array]:
    mask = feeds.get("attention_mask")
    if mask is None or mask.ndim != 2 or not mask.any() or any(array.shape != mask.shape for array in feeds.values()):
        return feeds
    length = int(np.flatnonzero(mask.any(axis=0))[-1]) + 1
    return {name: array[:, :length] for name, array in feeds.items()}


def real_rows(feeds: Mapping[str, Array], array: Array) -> Array:
    """Return an array as rows, without those that a mask of the same positions leaves out as padding."""
    mask = feeds.get("attention_mask")
    if mask is not None and mask.ndim == 2 and array.ndim == 3 and array.shape[:2] == mask.shape:
        rows: Array = array[mask.astype(bool)]
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


def joined(first: Mapping[str, Channels], second: Mapping[str, Channels]) -> dict[str, Channels]:
    """Return the statistics of the values of the first, joined with those of the second."""
    return {name: each.joined(second[name]) if name in second else each for name, each in first.items()}


def watched(
    model: ir.Model, names: Collection[str], samples: Mapping[str, Array], threads: int = 1
) -> Iterator[tuple[str, Array, int]]:
    """Run the samples, and yield the finite rows of each value by its name, beside the number of batches."""
    if not names:
        return
    shown = sorted_copy(model)
    assert shown is not None
    present = {str(value.name) for value in shown.graph.outputs}
    values = [value for node in shown.graph for value in node.outputs if value.name in names]
    shown.graph.outputs.extend(value for value in values if value.name not in present)
    parts = list(batches(samples, model.graph.inputs))
    runner = load_in_place(shown, threads)
    for feeds in parts:
        seen = {**feeds, **runner.run(feeds)}
        for name in names:
            rows = real_rows(feeds, seen[name]).astype(np.float32) if name in seen else np.zeros((0, 1), np.float32)
            rows = rows[np.isfinite(rows).all(axis=1)]
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
