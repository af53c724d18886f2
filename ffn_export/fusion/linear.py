"""Recognise linear layers, a product with a constant matrix and a bias, and write them as one ``Gemm``.

Covers: ``MatMul``; ``Gemm`` without an addend, whose factor and transposed weight are kept. Not covered: a transposed
input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.fusion import constants, layout, rows
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.views import float_of, input_at, int_of, is_standard, opset_of, orders, producer, rank

PRODUCTS = ("MatMul", "Gemm")
# Lowest opset whose Reshape has allowzero, for an empty batch.
RESHAPE_WITH_ZERO = 14
# Lowest opset whose Shape has an end, to leave out the last axis.
SHAPE_WITH_END = 15


@dataclass(frozen=True)
class Linear:
    """``x W + b``.

    Attributes:
        x: Input, ``[..., d_in]``.
        weight: ``[d_in, d_out]``, or ``[d_out, d_in]`` for a ``Gemm`` with ``transB``.
        bias: Row that is added; None without one.
        product: The ``MatMul`` or ``Gemm`` node.
        add: The ``Add`` node; None without a bias.
        moved: Layout nodes between the product and the sum.
    """

    x: ir.Value
    weight: ir.Value
    bias: ir.Value | None
    product: ir.Node
    add: ir.Node | None = None
    moved: tuple[ir.Node, ...] = ()

    @property
    def nodes(self) -> tuple[ir.Node, ...]:
        """All its nodes, from the end backwards."""
        return (*([] if self.add is None else [self.add]), *self.moved, self.product)

    @property
    def sizes(self) -> tuple[int, int]:
        """``(d_in, d_out)``."""
        assert self.weight.shape is not None
        d_in, d_out = self.weight.shape.numpy()
        return (d_out, d_in) if is_turned(self.product) else (d_in, d_out)

    @property
    def attributes(self) -> dict[str, float]:
        """The attributes to keep in a ``Gemm`` that replaces the layer."""
        said: dict[str, float] = {}
        if is_standard(self.product, "Gemm"):
            said |= {"alpha": alpha} if (alpha := float_of(self.product, "alpha", 1.0)) != 1 else {}
            said |= {"transB": 1} if is_turned(self.product) else {}
        return said


def read(value: ir.Value, graph: object) -> Linear | None:
    """Read a value as a product with a constant matrix, with or without a row added to it."""
    node = producer(value, within=graph)
    if node is None:
        return None
    if is_standard(node, *PRODUCTS):
        return _product(node)
    for other, bias in orders(node) if is_standard(node, "Add") else ():
        seen = layout.before(other, graph)
        product = producer(seen.value, *PRODUCTS, within=graph)
        linear = None if product is None or not seen.is_private else _product(product)
        if linear is None:
            continue
        d_out = linear.sizes[1]
        if rows.fits(bias, rank(other), [d_out]):
            return Linear(linear.x, linear.weight, bias, linear.product, node, seen.nodes)
    return None


def _product(node: ir.Node) -> Linear | None:
    x, weight = input_at(node, 0), weight_of(node)
    if x is None or weight is None:
        return None
    if is_standard(node, "Gemm") and (input_at(node, 2) is not None or int_of(node, "transA", 0) != 0):
        return None
    return Linear(x, weight, None, node)


def weight_of(product: ir.Node) -> ir.Value | None:
    """Return the second input of a product if it is a constant matrix of known sizes."""
    weight = input_at(product, 1)
    if weight is None or rank(weight) != 2 or not constants.is_fixed(weight):
        return None
    return weight if weight.shape is not None and weight.shape.is_static() else None


def is_turned(product: ir.Node) -> bool:
    """Whether a product reads its weight as ``[d_out, d_in]``."""
    return product.op_type != "MatMul" and bool(int_of(product, "transB", 0))


def is_plain_product(product: ir.Node) -> bool:
    """Whether a product scales nothing and does not transpose its first input."""
    is_scaled = any(float_of(product, name, 1.0) != 1 for name in ("alpha", "beta"))
    return product.op_type == "MatMul" or (not is_scaled and int_of(product, "transA", 0) == 0)


def why_no_rows(linear: Linear) -> str | None:
    """Return why the input cannot be reshaped to rows and back, or None if it can."""
    width = rank(linear.x)
    if width is None or width < 2:
        return "the rank of the input is not known or below 2"
    if width > 2 and opset_of(linear.product) < RESHAPE_WITH_ZERO:
        return f"reshaping to rows and back needs opset {RESHAPE_WITH_ZERO}"
    return None


def write_gemm(op: Builder, linear: Linear, operator: str = "Gemm", **attributes: object) -> ir.Value:
    """Write the layer as one Gemm-like node, with reshapes to rows and back unless its input is a matrix."""
    d_in, d_out = linear.sizes
    bias = [] if linear.bias is None else [rows.of(op, linear.bias, [d_out])]

    def gemm(x: ir.Value) -> ir.Value:
        y = op.write(operator, x, linear.weight, *bias, **linear.attributes, **attributes)
        # Shape inference does not cover vendor operators.
        y.type, y.shape = linear.x.type, ir.Shape([None, d_out])
        return y

    y = on_rows(op, linear.x, (d_in, d_out), gemm, opset_of(linear.product))
    return layout.again(op, y, linear.moved)


def on_rows(
    op: Builder, x: ir.Value, sizes: tuple[int, int], compute: Callable[[ir.Value], ir.Value], opset: int
) -> ir.Value:
    """Write a computation on rows, ``[tokens, d_in]`` to ``[tokens, d_out]``, for an input of any rank."""
    d_in, d_out = sizes
    if rank(x) == 2:
        return compute(x)
    y = compute(op.Reshape(x, op.integers(-1, d_in)))
    has_end = opset >= SHAPE_WITH_END
    leading = op.Shape(x, end=-1) if has_end else op.Slice(op.Shape(x), *map(op.integers, (0, -1)))
    # allowzero: an empty batch is a size of 0 and not "as before".
    return op.Reshape(y, op.Concat(leading, op.integers(d_out), axis=0), allowzero=1)
