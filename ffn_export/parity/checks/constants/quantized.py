"""Dequantise constants in few bits, and compare them with parameters by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ffn_export.core.types import Array
from ffn_export.fusion.sites import INTEGER_PRODUCT, QUANTIZED
from ffn_export.fusion.views import input_at, inputs_of, producer
from ffn_export.parity.checks.constants.traced import Traced
from ffn_export.quantization.blocks import dequantized

# Largest relative distance of a block from its weights. Rounding to 4 bits moves a block by about 0.1 and to 2 bits by
# about 0.4, while another block is about 1.4 away.
_WRONG = 0.7


@dataclass(frozen=True, eq=False)
class Quantized:
    """A constant in few bits.

    Attributes:
        array: Dequantised numbers.
        axis: Axis of the output channels.
        block: Numbers of a channel that share one scale; 0 means all.
        scales: Values of the scales and zero points, which are separate constants.
    """

    array: Array
    axis: int
    block: int
    scales: tuple[ir.Value, ...]


def quantized(model: ir.Model, arrays: Mapping[ir.Value, Array]) -> Iterator[tuple[ir.Value, Quantized]]:
    """Yield the quantised constants that ``MatMulNBits``, ``MatMulIntegerToFloat`` or ``DequantizeLinear`` reads.

    Args:
        model: The model.
        arrays: Value -> array, for the constants of the model.
    """
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        for node in graph.all_nodes():
            if node.op_type == INTEGER_PRODUCT:
                yield from _of_integers(node, arrays)
            if node.op_type not in (QUANTIZED, "DequantizeLinear"):
                continue
            first = 1 if node.op_type == QUANTIZED else 0
            values = [value for value in node.inputs[first:4] if value is not None]
            if any(value not in arrays for value in values) or any(value is not None for value in node.inputs[4:5]):
                continue  # computed at run time, or with a group index
            read = _of_product if first else _of_dequantize
            found = read(node, [arrays[value] for value in values])
            if found is not None:
                yield values[0], Quantized(*found, tuple(values[1:]))


def _of_product(node: ir.Node, arrays: list[Array]) -> tuple[Array, int, int] | None:
    """Return the weight as ``[K, N]``, its channel axis and its block size."""
    bits, block = node.attributes.get_int("bits", 4), node.attributes.get_int("block_size", 0)
    rows, columns = node.attributes.get_int("K", 0), node.attributes.get_int("N", 0)
    packed, scales, *zeros = arrays
    if packed.dtype != np.uint8 or block <= 0 or bits not in (2, 4, 8):
        return None
    return dequantized(packed, scales, zeros[0] if zeros else None, (rows, columns), bits, block), 1, block


def _of_integers(node: ir.Node, arrays: Mapping[ir.Value, Array]) -> Iterator[tuple[ir.Value, Quantized]]:
    """Yield the weight of a product of 8-bit integers without zero points.

    Factors that a ``Mul`` before the quantised rows divides channels by are taken out of the weight again.
    """
    numbers, scales = input_at(node, 1), input_at(node, 3)
    if numbers is None or scales is None or {numbers, scales} - arrays.keys() or input_at(node, 5) is not None:
        return
    matrix = arrays[numbers].astype(np.float32) * arrays[scales]
    before = producer(input_at(node, 0), "DynamicQuantizeLinear", "QuantizeLinear")
    if before is not None and before.op_type == "QuantizeLinear" and "block_size" not in before.attributes:
        before = producer(input_at(before, 0), "Div")  # by the scales of rows, which are no blocks
    value = None if before is None else input_at(before, 0)
    smoothed = producer(value, "Mul")
    beside = () if smoothed is None else inputs_of(smoothed)
    factors = [each for each in beside if each in arrays and arrays[each].shape == matrix.shape[:1]]
    for each in factors:
        matrix = matrix * arrays[each][:, None]
    yield numbers, Quantized(matrix, 1, 0, (scales, *factors))


def _of_dequantize(node: ir.Node, arrays: list[Array]) -> tuple[Array, int, int] | None:
    """Return the output of ONNX's ``DequantizeLinear``, with one scale for the tensor, each index, or each block."""
    stored, scale, *zeros = arrays
    if stored.ndim == 0:
        return None
    axis = node.attributes.get_int("axis", 1) % stored.ndim if scale.ndim else 0
    block = node.attributes.get_int("block_size", 0)
    wide = [each.astype(np.float32) for each in (scale, *zeros)]
    if block:
        wide = [np.repeat(each, block, axis=axis).take(range(stored.shape[axis]), axis) for each in wide]
    elif scale.ndim == 1 and scale.size > 1:
        wide = [each.reshape([-1 if i == axis else 1 for i in range(stored.ndim)]) for each in wide]
    numbers = stored.astype(np.float32) - (wide[1] if zeros else np.float32(0))
    if block and stored.ndim == 2:  # blocks lie along the axis, and channels along the other
        return numbers * wide[0], 1 - axis, block
    return numbers * wide[0], axis, 0


def rounded(stored: Quantized, traced: Traced) -> Traced:
    """Return the expected values of a quantised constant: its own numbers, or the weights in wrong blocks.

    Weights are compared in blocks that share one scale. A quantiser may move any number by some steps. A block with the
    numbers or scale of another block is as far from its weights as they are from zero.
    """
    channels = np.moveaxis(stored.array, stored.axis, 0)
    have = channels.reshape(len(channels), -1)
    want = traced.expected.reshape(stored.array.shape).astype(np.float32)
    want = np.moveaxis(want, stored.axis, 0).reshape(have.shape)
    starts = np.arange(0, have.shape[1], stored.block or have.shape[1])
    apart, sizes = (np.sqrt(np.add.reduceat(np.square(each), starts, axis=1)) for each in (have - want, want))
    wrong = apart > _WRONG * np.maximum(sizes, np.median(sizes) / 4)
    lengths = np.diff([*starts, have.shape[1]])
    expected = np.where(np.repeat(wrong, lengths, axis=1), want, have)
    whole = np.moveaxis(expected.reshape(channels.shape), 0, stored.axis)
    return Traced(traced.parameter, f"in few bits, {traced.how}", whole)
