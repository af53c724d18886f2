"""Row chunks: a feed-forward in a ``Loop`` over chunks of rows, so that the hidden layer of a chunk stays in cache.

A feed-forward is the same function for every token, so its rows can be computed in chunks of one size and concatenated.
T rows are ``n = max(T // TOKENS, 1)`` chunks of ``ceil(T / n)`` rows: below twice ``TOKENS`` rows, the loop runs once.
The last chunk ends at the last row. It overlaps the chunk before it by a few rows, which are dropped. (With more than
``TOKENS ** 2`` rows, rounding up may add a whole chunk or more; the last chunk is then computed more than once.) The
weights stay outside of the body, where the runtime packs them once. Within the loop, a wide hidden layer is split.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import numpy as np
import onnx_ir as ir

from ffn_export.fusion import sites
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.engine import Log
from ffn_export.fusion.forms.by_rows import split_hidden
from ffn_export.fusion.forms.by_rows.copy import write
from ffn_export.fusion.forms.by_rows.rewrite import Compute, rewrite
from ffn_export.fusion.forms.form import Form
from ffn_export.fusion.functions.site_reading import Reading
from ffn_export.fusion.shapes import last_size

NAME = "row-chunks"
# Fewest rows of a chunk if there are several chunks.
TOKENS = 384


def apply(model: ir.Model, log: Log, excluded: Collection[str]) -> dict[str, str]:
    """Write each feed-forward in a loop over row chunks."""
    return rewrite(model, log, excluded, NAME, _plan)


def _plan(site: sites.FoundSite, reading: Reading) -> Compute:
    found = split_hidden.read(site, reading) if split_hidden.is_wide(site) else None
    if isinstance(found, split_hidden.SplitLayer):
        compute: Compute = partial(split_hidden.write, reading=reading, layer=found)
    else:
        compute = partial(write, reading=reading)
    return partial(_loop, reading=reading, compute=compute)


def _loop(op: Builder, rows: ir.Value, *, reading: Reading, compute: Compute) -> ir.Value:
    """Write the loop, and concatenate the chunks: ``[T, d_in]`` to ``[T, d_out]``."""
    d_in, d_out = last_size(reading.inputs["x"]), last_size(reading.end)
    assert d_in is not None
    assert d_out is not None
    count = op.Shape(rows, start=0, end=1)
    chunks = op.Max(op.Div(count, op.integers(TOKENS)), op.integers(1))
    # The condition is optional, but ONNX's reference evaluator takes a missing one for false.
    always = op.constant(np.asarray(True))
    computed = op.Loop(op.Squeeze(chunks), always, body=_body(op, rows, count, chunks, d_in, compute))
    return _together(op, computed, count, chunks, d_out)


def _size(op: Builder, count: ir.Value, chunks: ir.Value) -> ir.Value:
    """Return the number of rows of a chunk, ``[1]``: the quotient, rounded up."""
    return op.Div(op.Add(count, op.Sub(chunks, op.integers(1))), chunks)


def _body(outer: Builder, rows: ir.Value, count: ir.Value, chunks: ir.Value, d_in: int, compute: Compute) -> ir.Graph:
    """Return the body of the loop. Its constants are added to the outer graph."""
    index = ir.val("chunk", ir.DataType.INT64, [])
    going = ir.val("going", ir.DataType.BOOL, [])
    op = Builder()
    size = _size(op, count, chunks)
    start = op.Min(op.Mul(index, size), op.Sub(count, size))
    chunk = op.Slice(rows, start, op.Add(start, size), op.integers(0))
    # Inference has no shape for a Slice with computed bounds. The Reshape states it, and moves no data.
    y = compute(op, op.Reshape(chunk, op.Concat(size, op.integers(d_in), axis=0), allowzero=1))
    goes_on = op.Identity(going)
    goes_on.type, goes_on.shape = going.type, going.shape
    outer.constants.extend(op.constants)
    assert last_size(y) is not None
    return ir.Graph([index, going], [goes_on, y], nodes=op.nodes, name="chunk")


def _together(op: Builder, computed: ir.Value, count: ir.Value, chunks: ir.Value, d_out: int) -> ir.Value:
    """Concatenate the chunks, ``[chunks, size, d_out]``, without the rows that the last one repeats."""
    size, zero = _size(op, count, chunks), op.integers(0)
    total = op.Mul(chunks, size)
    # Whole chunks first, then the rest of the last one. An empty input is one chunk without rows.
    whole = op.Mul(op.Div(count, op.Max(size, op.integers(1))), size)
    all_rows = op.Reshape(computed, op.integers(-1, d_out))
    first = op.Slice(all_rows, zero, whole, zero)
    rest = op.Slice(all_rows, op.Sub(total, op.Sub(count, whole)), total, zero)
    return op.Concat(first, rest, axis=0)


ROW_CHUNKS = Form(NAME, "feed_forward", lambda costs: False, apply=apply, least_tokens=2 * TOKENS)
