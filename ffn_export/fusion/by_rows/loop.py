"""Write a ``Loop`` over row chunks, so that the hidden layer of a chunk stays in cache.

A feed-forward is the same function for every token, so its rows can be computed in chunks of one size and concatenated.
T rows are ``n = max(T // tokens, 1)`` chunks of ``ceil(T / n)`` rows: below twice ``tokens`` rows, the loop runs once.
The last chunk ends at the last row. It overlaps the chunk before it by a few rows, which are dropped. (With more than
``tokens ** 2`` rows, rounding up may add a whole chunk or more; the last chunk is then computed more than once.) The
weights stay outside of the body, where the runtime packs them once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from ffn_export.fusion.builder import Builder
from ffn_export.fusion.shapes import last_size

# Function that writes a computation on rows.
Compute = Callable[[Builder, ir.Value], ir.Value]


def write(op: Builder, rows: ir.Value, sizes: tuple[int, int], tokens: int, compute: Compute) -> ir.Value:
    """Write the loop, and concatenate the chunks.

    Args:
        op: Builder that takes the nodes.
        rows: Input, ``[T, d_in]``.
        sizes: ``(d_in, d_out)``.
        tokens: Fewest rows of a chunk if there are several chunks.
        compute: Function that writes the computation of one chunk, ``[rows, d_in]`` to ``[rows, d_out]``.

    Returns:
        The result, ``[T, d_out]``.
    """
    count = op.Shape(rows, start=0, end=1)
    chunks = op.Max(op.Div(count, _whole(op, tokens)), _whole(op, 1))
    # The condition is optional, but ONNX's reference evaluator takes a missing one for false.
    always = op.constant(np.asarray(True))
    computed = op.Loop(op.Squeeze(chunks), always, body=_body(op, rows, count, chunks, sizes[0], compute))
    return _together(op, computed, count, chunks, sizes[1])


def write_for_long(op: Builder, rows: ir.Value, sizes: tuple[int, int], tokens: int, compute: Compute) -> ir.Value:
    """Write the loop for two chunks or more, and an ``If`` whose other branch computes shorter inputs without it.

    The loop is placed before the ``If``, and short inputs skip it. Inside a branch, its weights would be two graphs
    away, and the runtime would pack them in each iteration. Short inputs run every node before the ``If``, so the loop
    computes in its body what it alone needs.
    """
    count = op.Shape(rows, start=0, end=1)
    chunks = op.Div(count, _whole(op, tokens))
    is_long = op.Squeeze(op.Greater(chunks, _whole(op, 1)))
    computed = op.Loop(op.Squeeze(chunks), is_long, body=_body(op, rows, count, chunks, sizes[0], compute))
    branches = {}
    for name in ("then_branch", "else_branch"):
        inner = Builder()
        is_then = name == "then_branch"
        y = _together(inner, computed, count, chunks, sizes[1]) if is_then else compute(inner, rows)
        op.constants.extend(inner.constants)
        branches[name] = ir.Graph([], [y], nodes=inner.nodes, name=name)
    result: ir.Value = op.If(is_long, **branches)
    return result


def _whole(op: Builder, *numbers: int) -> ir.Value:
    return op.constant(np.asarray(numbers, np.int64))


def _size(op: Builder, count: ir.Value, chunks: ir.Value) -> ir.Value:
    """Return the number of rows of a chunk, ``[1]``: the quotient, rounded up.

    There may be no chunks if the loop never runs. With fixed sizes, a runtime that folds constants divides all the
    same; the ``Max`` keeps it from dividing by zero.
    """
    one = _whole(op, 1)
    divisor = op.Max(chunks, one)
    size: ir.Value = op.Div(op.Add(count, op.Sub(divisor, one)), divisor)
    return size


def _body(outer: Builder, rows: ir.Value, count: ir.Value, chunks: ir.Value, d_in: int, compute: Compute) -> ir.Graph:
    """Return the body of the loop. Its constants are added to the outer graph."""
    index = ir.Value(name="chunk", type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([]))
    going = ir.Value(name="going", type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
    op = Builder()
    size = _size(op, count, chunks)
    start = op.Min(op.Mul(index, size), op.Sub(count, size))
    chunk = op.Slice(rows, start, op.Add(start, size), _whole(op, 0))
    # Inference has no shape for a Slice with computed bounds. The Reshape states it, and moves no data.
    y = compute(op, op.Reshape(chunk, op.Concat(size, _whole(op, d_in), axis=0), allowzero=1))
    goes_on = op.Identity(going)
    goes_on.dtype, goes_on.shape = going.dtype, going.shape
    outer.constants.extend(op.constants)
    assert last_size(y) is not None
    return ir.Graph([index, going], [goes_on, y], nodes=op.nodes, name="chunk")


def _together(op: Builder, computed: ir.Value, count: ir.Value, chunks: ir.Value, d_out: int) -> ir.Value:
    """Concatenate the chunks, ``[chunks, size, d_out]``, without the rows that the last one repeats."""
    size, zero = _size(op, count, chunks), _whole(op, 0)
    total = op.Mul(chunks, size)
    # Whole chunks first, then the rest of the last one. An empty input is one chunk without rows.
    whole = op.Mul(op.Div(count, op.Max(size, _whole(op, 1))), size)
    all_rows = op.Reshape(computed, _whole(op, -1, d_out))
    first = op.Slice(all_rows, zero, whole, zero)
    rest = op.Slice(all_rows, op.Sub(total, op.Sub(count, whole)), total, zero)
    y: ir.Value = op.Concat(first, rest, axis=0)
    return y
