"""Statistics of activations, from the user's samples: a batch of rows at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping
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
    largest: dict[str, Array] = {}
    squares: dict[str, Array] = {}
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        path = Path(scratch) / "watched.onnx"
        onnx_file.save(watched, path)
        runner = OrtRunner(make_session(path, SessionSettings(), threads=threads))
        for feeds in batches(samples):
            found = {**feeds, **runner.run(feeds)}
            for name in names & found.keys():
                rows = real_rows(feeds, found[name]).astype(np.float32)
                rows = rows[np.isfinite(rows).all(axis=1)]
                if not len(rows):
                    continue
                largest[name] = np.maximum(largest.get(name, np.float32(0)), np.abs(rows).max(axis=0))
                squares[name] = squares.get(name, np.float32(0)) + np.square(rows).sum(axis=0)
                counts[name] = counts.get(name, 0) + len(rows)
    return {name: Channels(largest[name], squares[name] / counts[name]) for name in counts}
