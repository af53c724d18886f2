"""Writes a ``Loop`` over chunks of rows, so that the hidden layer of a chunk stays in cache.

A feed-forward is the same function for every token, so its rows are cut into equal chunks, padded by less than one row
a chunk, and what comes out is put together again. The number of chunks follows the input: with T rows there are
``n = max(T // tokens, 1)`` chunks of ``ceil(T / n)``, so that below twice ``tokens`` the loop runs once. The weights
stay outside of the body, where the runtime packs them once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.fusion.builder import Builder
from ffn_export.fusion.shapes import last_size

# Writes what is computed from rows.
Compute = Callable[[Builder, ir.Value], ir.Value]


def write(op: Builder, rows: ir.Value, sizes: tuple[int, int], tokens: int, compute: Compute) -> ir.Value:
    """Write what cuts the rows, the loop, and what puts the chunks together.

    Args:
        op: Takes the nodes.
        rows: ``[T, d_in]``.
        sizes: ``(d_in, d_out)``.
        tokens: The fewest rows of a chunk where there is more than one.
        compute: Writes what is computed of one chunk, ``[rows, d_in]`` to ``[rows, d_out]``.

    Returns:
        ``[T, d_out]``.
    """
    cut = _cut(op, rows, sizes[0], tokens)
    return _together(op, _loop(op, cut.stacked, cut.chunks, compute), cut.count, sizes[1])


def write_for_long(op: Builder, rows: ir.Value, sizes: tuple[int, int], tokens: int, compute: Compute) -> ir.Value:
    """Write the loop for two chunks and more, and what is computed without one in an ``If`` for fewer.

    The loop stands before the ``If`` and runs no time where there are fewer: within a branch its weights are two graphs
    away, and the runtime packs them anew in each iteration.
    """
    cut = _cut(op, rows, sizes[0], tokens)
    is_long = op.Greater(cut.chunks, _whole(op, 1))
    computed = _loop(op, cut.stacked, op.Where(is_long, cut.chunks, _whole(op, 0)), compute)
    branches = {}
    for name in ("then_branch", "else_branch"):
        inner = Builder()
        y = _together(inner, computed, cut.count, sizes[1]) if name == "then_branch" else compute(inner, rows)
        op.constants.extend(inner.constants)
        branches[name] = ir.Graph([], [y], nodes=inner.nodes, name=name)
    result: ir.Value = op.If(op.Squeeze(is_long), **branches)
    return result


@dataclass(frozen=True)
class _Cut:
    """Rows in chunks.

    Attributes:
        stacked: ``[chunks, rows of a chunk, d_in]``.
        chunks: How many, ``[1]``.
        count: Of the rows before they were padded, ``[1]``.
    """

    stacked: ir.Value
    chunks: ir.Value
    count: ir.Value


def _whole(op: Builder, *numbers: int) -> ir.Value:
    return op.constant(np.asarray(numbers, np.int64))


def _cut(op: Builder, rows: ir.Value, d_in: int, tokens: int) -> _Cut:
    one, zero = _whole(op, 1), _whole(op, 0)
    count = op.Shape(rows, start=0, end=1)
    chunks = op.Max(op.Div(count, _whole(op, tokens)), one)
    size = op.Div(op.Add(count, op.Sub(chunks, one)), chunks)
    missing = op.Sub(op.Mul(chunks, size), count)
    padded = op.Pad(rows, op.Concat(_whole(op, 0, 0), missing, zero, axis=0))
    # allowzero: no tokens at all are one chunk of none.
    stacked = op.Reshape(padded, op.Concat(chunks, size, _whole(op, d_in), axis=0), allowzero=1)
    return _Cut(stacked, chunks, count)


def _loop(op: Builder, stacked: ir.Value, times: ir.Value, compute: Compute) -> ir.Value:
    together: ir.Value = op.Loop(op.Squeeze(times), None, body=_body(op, stacked, compute))
    return together


def _together(op: Builder, computed: ir.Value, count: ir.Value, d_out: int) -> ir.Value:
    """Put the chunks together again, without the rows that they were padded by."""
    zero = _whole(op, 0)
    y: ir.Value = op.Slice(op.Reshape(computed, _whole(op, -1, d_out)), zero, count, zero)
    return y


def _body(outer: Builder, stacked: ir.Value, compute: Compute) -> ir.Graph:
    """Return the body, which takes the chunk of its iteration; its constants are the outer graph's."""
    index = ir.Value(name="chunk", type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([]))
    going = ir.Value(name="going", type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
    op = Builder()
    y = compute(op, op.Gather(stacked, index, axis=0))
    goes_on = op.Identity(going)
    goes_on.dtype, goes_on.shape = going.dtype, going.shape
    outer.constants.extend(op.constants)
    assert last_size(y) is not None
    return ir.Graph([index, going], [goes_on, y], nodes=op.nodes, name="chunk")
