"""Statistics of activations, from the user's samples: a batch of rows at a time."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.types import Array
from ffn_export.fusion.pipeline import sorted_copy
from ffn_export.quantization.smoothing import Channels
from ffn_export.runtimes.ort_session import OrtRunner, make_session
from ffn_export.runtimes.session_options import SessionSettings

_ROWS = 8
# Rows of a value that are kept, about.
_KEPT = 128


def batches(samples: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """Yield the samples a few rows of the first axis at a time, or whole if their first axes differ."""
    sizes = {array.shape[0] if array.ndim else 0 for array in samples.values()}
    if len(sizes) != 1:
        yield dict(samples)
        return
    for start in range(0, sizes.pop(), _ROWS):
        yield {name: array[start : start + _ROWS] for name, array in samples.items()}


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
    watched = sorted_copy(model)
    assert watched is not None
    present = {str(value.name) for value in watched.graph.outputs}
    values = [value for node in watched.graph for value in node.outputs if value.name in names]
    watched.graph.outputs.extend(value for value in values if value.name not in present)
    found: dict[str, _Sums] = defaultdict(_Sums)
    parts = list(batches(samples))
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        path = Path(scratch) / "watched.onnx"
        onnx_file.save(watched, path)
        runner = OrtRunner(make_session(path, SessionSettings(), threads=threads))
        for feeds in parts:
            seen = {**feeds, **runner.run(feeds)}
            for name in names & seen.keys():
                rows = real_rows(feeds, seen[name]).astype(np.float32)
                rows = rows[np.isfinite(rows).all(axis=1)]
                if len(rows):
                    found[name].add(rows, -(-_KEPT // len(parts)))
    return {name: sums.channels() for name, sums in found.items()}


@dataclass
class _Sums:
    """Statistics so far."""

    lowest: Array | np.float32 = np.float32(np.inf)
    highest: Array | np.float32 = np.float32(-np.inf)
    squares: Array | np.float32 = np.float32(0)
    count: int = 0
    kept: list[Array] = field(default_factory=list)

    def add(self, rows: Array, keep: int) -> None:
        """Add rows, and keep a few that lie evenly among them."""
        self.lowest = np.minimum(self.lowest, rows.min(axis=0))
        self.highest = np.maximum(self.highest, rows.max(axis=0))
        self.squares = self.squares + np.square(rows).sum(axis=0)
        self.count += len(rows)
        self.kept.append(rows[:: -(-len(rows) // keep)].copy())

    def channels(self) -> Channels:
        """Return the statistics."""
        lowest, highest, squares = (np.asarray(each) for each in (self.lowest, self.highest, self.squares))
        return Channels(lowest, highest, squares / self.count, np.concatenate(self.kept))
