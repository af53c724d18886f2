"""Write an attention that was read: its queries, keys and values in rows, its mask, and what comes behind its node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ffn_export.fusion import constants
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.functions.attention_calls import Found
from ffn_export.fusion.functions.attention_scores import Step
from ffn_export.fusion.functions.contract import ATTENTION, Call
from ffn_export.fusion.functions.heads import Heads
from ffn_export.fusion.views import rank

_FLOAT = ir.DataType.FLOAT
_AXES_AS_INPUT = 18  # of ReduceMax


class AttentionCalls:
    """Makes the calls of a model. Masks that several layers share are prepared once."""

    def __init__(self, model: ir.Model) -> None:
        self._reduces_by_input = model.opset_imports.get("", 0) >= _AXES_AS_INPUT
        self._made: dict[tuple[object, ...], ir.Value] = {}

    def of(self, found: Found, op: Builder) -> Call:
        """Return the call of an attention, with the nodes before it in the builder."""
        inputs = {
            name: self._rows(heads, found, op)
            for name, heads in (("query", found.query), ("key", found.key), ("value", found.value))
        }
        if found.by_head is not None:
            inputs["query"] = _scaled_by_head(inputs["query"], found.by_head, found.query.size, op)
        if found.steps:
            inputs["bias"] = self._bias(found, op)
        attributes = {
            "num_heads": found.query.count,
            "kv_num_heads": found.key.count,
            "scale": found.scale,
            "causal": int(found.is_causal),
        }
        return Call(ATTENTION, inputs, attributes, (found.end,), found.nodes, found.query.size)

    def behind(self, found: Found, y: ir.Value, op: Builder) -> ir.Value:
        """Write what comes behind the call, whose result is in rows and NaN where a query sees no key."""
        if found.zeroes and found.steps:
            y = op.Where(self._sees_none(found, op), op.constant(np.asarray(0, np.float32)), y)
        if found.merging is None:
            sizes = op.integers(0, 0, found.query.count, found.query.size)
            y = op.Transpose(op.Reshape(y, sizes), perm=[0, 2, 1, 3])
        elif found.merging.has_length_first:
            y = op.Transpose(y, perm=[1, 0, 2])
        joining = None if found.merging is None else found.merging.joining
        return y if joining is None else op.like(joining, y, *joining.inputs[1:])[0]

    def _rows(self, heads: Heads, found: Found, op: Builder) -> ir.Value:
        """Return heads in rows. Parts that lie beside each other are split once."""
        if not heads.has_length_first and heads.parts == 1:
            return heads.rows(op)
        key = (found.nodes[-1].graph, heads.value, heads.order, heads.parts)
        if (*key, heads.part) not in self._made:
            rows, width = heads.rows(op), heads.count * heads.size
            parts: Sequence[ir.Value] = [rows]
            if heads.parts > 1:
                parts = op.several("Split", heads.parts, rows, op.constant(np.full(heads.parts, width)), axis=-1)
            for part, value in enumerate(parts):
                value.dtype, value.shape = _FLOAT, ir.Shape([heads.batch, heads.length, width])
                self._made[*key, part] = value
        return self._made[*key, heads.part]

    def _bias(self, found: Found, op: Builder) -> ir.Value:
        """Return what the steps make of zero, with four axes."""
        key = (found.nodes[-1].graph, found.is_joined, found.query.count, *found.steps)
        if key not in self._made:
            self._made[key] = _masked_zero(found, op)
        return self._made[key]

    def _sees_none(self, found: Found, op: Builder) -> ir.Value:
        """Return which queries see no key, ``[batch, length, 1]``.

        ONNX Runtime reduces no axis of an empty tensor, so batch, queries and keys get an element more for that.
        """
        bias = self._bias(found, op)
        key = (found.nodes[-1].graph, bias, "sees none")
        if key not in self._made:
            least, more = np.asarray(-np.inf, np.float32), np.asarray([0, 0, 0, 0, 1, 0, 1, 1], np.int64)
            some = op.Pad(bias, op.constant(more), op.constant(least))
            axis, heads = (op.integers(number) for number in (-1, 1))
            largest = op.ReduceMax(some, axis) if self._reduces_by_input else op.ReduceMax(some, axes=[-1])
            first, last, axes = (op.integers(*each) for each in ([0, 0], [-1, -1], [0, 2]))
            rows = op.Squeeze(op.Slice(largest, first, last, axes), heads)
            hidden = op.Equal(rows, op.constant(least))
            hidden.dtype = ir.DataType.BOOL
            self._made[key] = hidden
        return self._made[key]


def _masked_zero(found: Found, op: Builder) -> ir.Value:
    total: ir.Value | None = None
    for step in found.steps:
        if step.operator == "Mul" and total is not None:
            total = op.Mul(total, op.constant(np.asarray(step.factor, np.float32)))
        elif step.operator == "Max" and total is not None:
            total = op.Max(total, step.number)
        elif step.mask is not None:
            mask = _four_axes(step, step.mask, found, op)
            if step.operator == "Where":
                other = op.constant(np.asarray(0, np.float32)) if total is None else total
                total = op.Where(mask, *((step.number, other) if step.hides else (other, step.number)))
            elif total is None:
                total = op.Neg(mask) if step.operator == "Sub" else mask
            else:
                total = op.write(step.operator, total, mask)
    assert total is not None  # the first step has a mask
    return total


def _four_axes(step: Step, mask: ir.Value, found: Found, op: Builder) -> ir.Value:
    """Return a mask with four axes: ``[batch, heads, queries, keys]``, each of them or 1."""
    lacking = 4 - (rank(mask) or 0)
    if step.axes == 4 or lacking > 1 or (not found.is_joined and step.sizes[0] == 1):
        y = op.Unsqueeze(mask, op.constant(np.arange(lacking))) if lacking else mask
    elif found.is_joined:
        y = op.Unsqueeze(mask, op.integers(1))
    else:
        place = 1 if found.query.has_length_first else 0
        batch, last = op.Shape(found.query.value, start=place, end=place + 1), op.Shape(mask, start=1)
        sizes = op.Concat(batch, op.integers(found.query.count), last, axis=0)
        for value in (batch, last, sizes):
            value.dtype = ir.DataType.INT64
        # allowzero: an empty sequence is a size of 0 and not "as before".
        y = op.Reshape(mask, sizes, allowzero=1)
    y.type = mask.type
    return y


def _scaled_by_head(rows: ir.Value, factors: ir.Value, size: int, op: Builder) -> ir.Value:
    """Return queries in rows, those of each head times its factor."""
    tensor = constants.tensor_of(factors)
    assert tensor is not None
    y = op.Mul(rows, op.constant(np.repeat(tensor.numpy().reshape(-1), size)))
    y.type, y.shape = rows.type, rows.shape
    return y
