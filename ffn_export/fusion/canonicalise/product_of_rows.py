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
from ffn_export.fusion.linear import PRODUCTS
from ffn_export.fusion.rule import Found, Rule, replacing, standard
from ffn_export.fusion.shapes import are_same_axes, last_size
from ffn_export.fusion.views import float_of, input_at, int_of, is_standard, producer


class ProductOfRows(Rule):
    """A product with a constant matrix, between Reshapes to rows and back."""

    site = "feed_forward"
    writes = "MatMul"
    ends = standard("Reshape")

    def match(self, node: ir.Node) -> Found:
        """Recognise the product before a Reshape, and the Reshape before that."""
        product = producer(node.inputs[0], *PRODUCTS)
        before = None if product is None else producer(product.inputs[0], "Reshape")
        source, shape = None if before is None else before.inputs[0], node.outputs[0].shape
        if product is None or source is None or source.shape is None or shape is None or len(shape) < 3:
            return None
        weight, addend = input_at(product, 1), input_at(product, 2)
        if not constants.is_fixed(weight) or weight is None or not _is_plain(product):
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
        turned = bool(int_of(product, "transB", 0))
        x = (source, [0] * len(leading) + [d_in] if len(joined) > 1 else None)
        return replacing((node, product), node.outputs[0], _write, x, weight, turned, addend, d_out)


def _is_plain(product: ir.Node) -> bool:
    if is_standard(product, "MatMul"):
        return True
    scaled = any(float_of(product, name, 1.0) != 1 for name in ("alpha", "beta"))
    return not scaled and int_of(product, "transA", 0) == 0


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
