"""A residual sum and its norm -> one ``Skip…`` node of ``com.microsoft``.

``LayerNormalization`` becomes SkipLayerNormalization, ``RMSNormalization`` becomes
SkipSimplifiedLayerNormalization. Covers: a bias added to either addend, folded in; a sum that is read
elsewhere too, which becomes the fourth output of the node; reshapes between the sum and the norm; sums of
other ranks than 2 and 3, which are reshaped to rows and back; a sum of three, of which the outer Add is
fused; an addend that is the same for every batch, such as position embeddings; `Sum` of two for `Add`.
Not covered: a norm over more than the last axis; addends whose shapes differ in any other way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.fusion import constants, layout, rows
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.linear import RESHAPE_WITH_ZERO
from ffn_export.fusion.rule import Found, Match, Refused, Rule, standard
from ffn_export.fusion.shapes import are_alike, are_same_operand_axes, is_along_last, is_row_of, last_size
from ffn_export.fusion.views import float_of, input_at, inputs_of, int_of, is_read, opset_of, orders, producer, rank

_FLOAT32 = ir.DataType.FLOAT.value


@dataclass(frozen=True)
class _Pair:
    """A sum and its norm."""

    norm: ir.Node
    add: ir.Node
    moved: layout.Seen
    x: ir.Value
    skip: ir.Value
    bias: ir.Value | None
    inner: ir.Node | None

    @property
    def total(self) -> ir.Value:
        """The sum."""
        return self.add.outputs[0]

    @property
    def keeps_sum(self) -> bool:
        """Whether anything but the norm reads the sum."""
        next_node = self.moved.nodes[-1] if self.moved.nodes else self.norm
        others = [user for user in self.total.consumers() if user is not next_node]
        return bool(others) or self.total.is_graph_output() or not self.moved.is_private

    @property
    def nodes(self) -> tuple[ir.Node, ...]:
        """The nodes to replace; a layout node that others read too stays."""
        moved = self.moved.nodes if self.moved.is_private else ()
        return (self.norm, *moved, self.add, *([] if self.inner is None else [self.inner]))


class SkipLayerNorm(Rule):
    """Residual sum and LayerNorm."""

    site = "residual_norm"
    writes = "com.microsoft::SkipLayerNormalization"
    ends = standard("LayerNormalization")

    def match(self, node: ir.Node) -> Found:
        """Recognise the sum before the norm."""
        pair = _pair(node)
        if pair is None:
            return None
        reason = self._refusal(pair)
        if reason is not None:
            return Refused(reason, pair.nodes, pair.add)
        outputs = (node.outputs[0], *([pair.total] if pair.keeps_sum else []))
        return Match(pair.nodes, outputs, lambda op: self._write(op, pair))

    def _refusal(self, pair: _Pair) -> str | None:
        node, x = pair.norm, pair.x
        shift = input_at(node, 2)
        conditions = {
            "the statistics are not in float32": int_of(node, "stash_type", 1) == _FLOAT32,
            "the mean or the inverse deviation of the norm is read": not any(map(is_read, node.outputs[1:])),
            f"the addends have shapes {x.shape} and {pair.skip.shape}: {x.name!r}, {pair.skip.name!r}": _fit(
                x, pair.skip
            ),
            "the norm runs over more than the last axis": is_along_last(node, node.inputs[0], -1),
            "the norm's epsilon is no number": not math.isnan(float_of(node, "epsilon", 1e-5)),
            "the norm's scale is not one number for each feature": is_row_of(input_at(node, 1), x),
            "the norm's bias is not one number for each feature": shift is None or is_row_of(shift, x),
            "the norm's scale or bias has another dtype": all(
                row is None or row.dtype == x.dtype for row in (input_at(node, 1), shift)
            ),
            # The node would output the sum, and read a row that may be computed from it.
            "the norm's scale or bias is computed, and the sum is read elsewhere": not pair.keeps_sum
            or not any(map(_is_computed, (input_at(node, 1), shift))),
            f"reshaping to rows and back needs opset {RESHAPE_WITH_ZERO}": rank(x) in (2, 3)
            or opset_of(node) >= RESHAPE_WITH_ZERO,
        }
        return next((reason for reason, holds in conditions.items() if not holds), None)

    def _write(self, op: Builder, pair: _Pair) -> list[ir.Value]:
        """Write the fused operator, with the epsilon: the two operators default to different ones."""
        assert self.writes is not None
        assert pair.x.shape is not None
        width = int(str(pair.x.shape[-1]))
        as_rows = rank(pair.x) not in (2, 3)
        given = (pair.x, pair.skip)
        x, skip = (op.Reshape(value, op.integers(-1, width)) if as_rows else value for value in given)
        bias = None if pair.bias is None else rows.of(op, pair.bias, [width])
        y, *further = op.several(
            self.writes,
            4 if pair.keeps_sum else 1,
            *self.inputs(x, skip, pair.norm, bias),
            epsilon=float_of(pair.norm, "epsilon", 1e-5),
        )
        for statistic in further[:2]:
            statistic.name = ""  # for training; no kernel computes them
        totals = [_in_shape_of(op, total, pair.x) if as_rows else total for total in further[2:]]
        y = _in_shape_of(op, y, pair.x) if as_rows else y
        return [layout.again(op, y, pair.moved.nodes), *totals]

    def inputs(self, x: ir.Value, skip: ir.Value, node: ir.Node, bias: ir.Value | None) -> list[ir.Value | None]:
        """Return the inputs in the operator's order."""
        given = [x, skip, node.inputs[1], input_at(node, 2), bias]
        while given[-1] is None:
            given.pop()
        return given


class SkipLayerNormInHalf(SkipLayerNorm):
    """The same in half precision.

    CUDA's kernel takes the variance for the mean of squares less the squared mean. In float32 that leaves the bound on
    rows whose mean is far larger than their spread (docs/results-gpu.md).
    """

    def _refusal(self, pair: _Pair) -> str | None:
        if pair.x.dtype not in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
            return "CUDA's kernel of both loses digits in float32"
        return super()._refusal(pair)


class SkipRmsNorm(SkipLayerNorm):
    """Residual sum and RMSNorm."""

    writes = "com.microsoft::SkipSimplifiedLayerNormalization"
    ends = standard("RMSNormalization")

    def inputs(self, x: ir.Value, skip: ir.Value, node: ir.Node, bias: ir.Value | None) -> list[ir.Value | None]:
        """Return the inputs in the operator's order; it has no shift."""
        return [x, skip, node.inputs[1], *([] if bias is None else [bias])]


def _pair(norm: ir.Node) -> _Pair | None:
    value = input_at(norm, 0)
    if value is None or len(norm.inputs) < 2:
        return None
    moved = layout.before(value, norm.graph)
    add = producer(moved.value, "Add", "Sum", within=norm.graph)
    inputs = inputs_of(add)
    if add is None or len(inputs) != 2 or any(map(_is_constant, inputs)):
        return None  # the sum adds a bias, and is no residual sum
    for x, skip in orders(add):
        biased = _biased(x, norm.graph)
        if biased is not None:
            inner, data, bias = biased
            return _Pair(norm, add, moved, *_larger_first(data, skip), bias, inner)
    return _Pair(norm, add, moved, *_larger_first(*inputs), None, None)


def _larger_first(x: ir.Value, skip: ir.Value) -> tuple[ir.Value, ir.Value]:
    return (skip, x) if not _fit(x, skip) and _fit(skip, x) else (x, skip)


def _fit(x: ir.Value, skip: ir.Value) -> bool:
    """Whether the kernels take the addends: of one shape, or the second one the same for every batch."""
    if are_alike(x, skip):
        return True
    if x.shape is None or skip.shape is None or len(x.shape) != 3:
        return False
    is_for_all = len(skip.shape) == 2 or (len(skip.shape) == 3 and skip.shape[0] == 1)
    return is_for_all and are_same_operand_axes(x.shape[-2:], skip.shape[-2:])


def _is_constant(value: ir.Value) -> bool:
    return constants.is_fixed(value) or constants.evaluate(value) is not None


def _biased(value: ir.Value, graph: object) -> tuple[ir.Node, ir.Value, ir.Value] | None:
    """Read an addend as ``data + row``; None if it is not one, or is read more than once."""
    add = producer(value, "Add", within=graph)
    if add is None or len(value.uses()) != 1 or value.is_graph_output():
        return None
    for data, bias in orders(add):
        if constants.evaluate(bias) is not None and bias.dtype == data.dtype and are_alike(data, value):
            width = last_size(data)
            if width is not None and rows.fits(bias, rank(data), [width]):
                return add, data, bias
    return None


def _in_shape_of(op: Builder, value: ir.Value, x: ir.Value) -> ir.Value:
    # allowzero: an empty batch is a size of 0 and not "as before".
    return op.Reshape(value, op.Shape(x), allowzero=1)


def _is_computed(value: ir.Value | None) -> bool:
    return value is not None and value.producer() is not None and not _is_constant(value)
