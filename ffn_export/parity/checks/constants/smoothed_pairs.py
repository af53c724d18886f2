"""Take the factors that smooth an input out of the product that writes it and of the one that reads it.

A quantiser divides the channels of a hidden layer by factors: the columns of the product before, and it multiplies the
rows of the product after. Both products stay the same function together. The factors are read off the columns of the
first. They are right only if the second then has its weights, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion.sites import INTEGER_PRODUCT
from ffn_export.fusion.views import input_at, is_standard, producer
from ffn_export.parity.checks.constants.quantized import Quantized

# Operators that commute with positive factors of channels, or that only store a value in 8 bits.
_TRANSPARENT = ("Relu", "Add", "Mul", "Div", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
# Least cosine of a column in 8 bits and its weights.
_ALIKE = 0.95


def pairs(model: ir.Model, numbers: Collection[ir.Value]) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yield the numbers of two products, of which the second may read a smoothed output of the first."""
    for node in model.graph.all_nodes():
        after = _weight(node, numbers)
        if after is None:
            continue
        seen: set[ir.Value] = set()
        ahead = [input_at(node, 0)]
        while ahead:
            value = ahead.pop()
            before = None if value is None or value in seen else value.producer()
            if value is None or before is None:
                continue
            seen.add(value)
            weight = _weight(before, numbers)
            if weight is not None:
                yield weight, after
            elif is_standard(before, *_TRANSPARENT):
                ahead += before.inputs


def _weight(node: ir.Node, numbers: Collection[ir.Value]) -> ir.Value | None:
    value = input_at(node, 1)
    if is_standard(node, "MatMul"):
        value = input_at(dequantized, 0) if (dequantized := producer(value, "DequantizeLinear")) is not None else None
    elif node.op_type != INTEGER_PRODUCT:
        return None
    return value if value in numbers else None


def without_factors(
    before: Quantized, parameters: Iterable[Array], after: Quantized
) -> tuple[Quantized, Quantized] | None:
    """Return both matrices without the factors, or None if no parameter has columns of these directions.

    Args:
        before: The product that writes the smoothed value.
        parameters: Matrices of the module, of which one may be its weight.
        after: The product that reads it.
    """
    have = before.array
    if have.ndim != 2 or before.axis != 1 or after.array.shape[0] != have.shape[1] or before.block or after.block:
        return None
    for parameter in parameters:
        for want in (parameter.T, parameter):
            if want.shape != have.shape:
                continue
            shared, size = (have * want).sum(axis=0), np.square(want).sum(axis=0, dtype=np.float32)
            alike = shared > _ALIKE * np.sqrt(np.square(have).sum(axis=0) * size)
            if (alike | (size == 0)).all():
                factors = np.where(size > 0, shared / np.where(size > 0, size, 1), 1)
                return replace(before, array=have / factors), replace(after, array=after.array * factors[:, None])
    return None
