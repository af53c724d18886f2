"""A product of rows, with Reshapes to rows and back -> ``MatMul`` and ``Add`` on all axes.

    Reshape(Gemm(Reshape(x, [-1, d_in]), W, b), [batch, length, d_out])  ->  MatMul(x, W) + b

Covers: ``Gemm`` with or without an addend and with transposed weights; ``MatMul``; rows that join further axes, such as
heads. Not covered: leading axes that are not proven to be those of the input, and a scaled or transposed ``Gemm``.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ffn_export.fusion import constants, rows
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.linear import PRODUCTS, is_plain_product, is_turned
from ffn_export.fusion.rule import Found, Rule, replacing, standard
from ffn_export.fusion.shapes import are_same_axes, last_size
from ffn_export.fusion.views import input_at, producer


class ProductOfRows(Rule):
    """A product with a constant matrix, between Reshapes to rows and back."""

    site = "feed_forward"
    writes = "MatMul"
    ends = standard("Reshape")

    def match(self, node: ir.Node) -> Found:
        """Recognise the product before a Reshape, and the Reshape before that."""
        product = producer(node.inputs[0], *PRODUCTS)
        source, shape = input_at(producer(input_at(product, 0), "Reshape"), 0), node.outputs[0].shape
        if product is None or source is None or source.shape is None or shape is None or len(shape) < 3:
            return None
        weight, addend = input_at(product, 1), input_at(product, 2)
        if not constants.is_fixed(weight) or weight is None or not is_plain_product(product):
            return None
        d_in, d_out, leading = last_size(product.inputs[0]), last_size(product.outputs[0]), list(shape)[:-1]
        if d_in is None or d_out is None or last_size(node.outputs[0]) != d_out:
            return None
        axes = list(source.shape)
        joined = [size for size in axes[len(leading) :] if isinstance(size, int)]
        is_whole = len(axes) > len(leading) and len(joined) == len(axes) - len(leading)
        if not is_whole or int(np.prod(joined)) != d_in or not are_same_axes(axes[: len(leading)], leading):
            return None
        if addend is not None and not rows.fits(addend, 2, [d_out]):
            return None
        x = (source, [0] * len(leading) + [d_in] if len(joined) > 1 else None)
        return replacing((node, product), node.outputs[0], _write, x, weight, is_turned(product), addend, d_out)


def _write(
    op: Builder,
    source: tuple[ir.Value, list[int] | None],
    weight: ir.Value,
    turned: bool,
    addend: ir.Value | None,
    d_out: int,
) -> ir.Value:
    x, target = source
    if target is not None:
        x = op.Reshape(x, op.integers(*target))
    y = op.MatMul(x, op.Transpose(weight, perm=[1, 0]) if turned else weight)
    return y if addend is None else op.Add(y, rows.of(op, addend, [d_out]))
