"""Block-wise quantised matrices in the layout of ``MatMulNBits``, computed by onnxruntime's quantiser."""

from __future__ import annotations

import importlib
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from ffn_export.core.types import Array
from ffn_export.quantization.options import QuantizationOptions


@dataclass(frozen=True)
class Blocks:
    """A quantised matrix. A stored number is dequantised as ``(number - 2 ** (bits - 1)) * scale`` of its block.

    It has no zero points. At accuracy level 4 they would be multiplied by the rounded input, which adds more error than
    they save.

    Attributes:
        packed: ``uint8[d_out, blocks, bytes of a block]``; at 4 bits, two numbers per byte, the lower half first.
        scales: ``[d_out, blocks]`` in the matrix's dtype.
        bits: Bits of a stored number.
    """

    packed: Array
    scales: Array
    bits: int

    @property
    def nbytes(self) -> int:
        """Size of packed numbers and scales."""
        return self.packed.nbytes + self.scales.nbytes

    def matrix(self, d_in: int) -> Array:
        """Return the dequantised ``[d_in, d_out]`` matrix, in float32."""
        d_out, _, size = self.packed.shape
        return dequantized(self.packed, self.scales, None, (d_in, d_out), self.bits, size * 8 // self.bits)


def dequantized(
    packed: Array, scales: Array, zeros: Array | None, shape: tuple[int, int], bits: int, block: int
) -> Array:
    """Return the matrix that ``MatMulNBits`` reads, in float32.

    Args:
        packed: Stored numbers of each column in blocks, lowest bits of a byte first.
        scales: A scale for each block.
        zeros: A zero point for each block, packed in the same way or as floats; None for half of the range.
        shape: ``d_in`` and ``d_out``.
        bits: Bits of a stored number: 2, 4 or 8.
        block: Numbers of a block.

    Source: onnxruntime's ContribOperators.md, ``com.microsoft.MatMulNBits``.
    """
    d_in, d_out = shape
    blocks = -(-d_in // block)
    numbers = _unpacked(packed.reshape(d_out, -1), bits)[:, : blocks * block].reshape(d_out, blocks, block)
    zero: Array = np.full((1, 1, 1), 2 ** (bits - 1), np.float32)
    if zeros is not None:
        each = zeros if zeros.dtype != np.uint8 else _unpacked(zeros.reshape(d_out, -1), bits)
        zero = each.astype(np.float32).reshape(d_out, -1)[:, :blocks, None]
    matrix = (numbers.astype(np.float32) - zero) * scales.astype(np.float32).reshape(d_out, blocks, 1)
    return matrix.reshape(d_out, -1)[:, :d_in].T


def _unpacked(packed: Array, bits: int) -> Array:
    """Unpack the numbers in bytes, lowest bits first."""
    places = np.arange(0, 8, bits, dtype=np.uint8)
    numbers: Array = (packed[..., None] >> places) & np.uint8(2**bits - 1)
    return numbers.reshape(*packed.shape[:-1], -1)


def quantized(matrix: Array, options: QuantizationOptions) -> Blocks:
    """Quantise a ``[d_in, d_out]`` matrix in blocks along its first axis."""
    theirs = _quantizers()
    configuration = theirs.DefaultWeightOnlyQuantConfig(block_size=options.block, is_symmetric=True, bits=options.bits)
    quantizer = theirs.DefaultWeightOnlyQuantizer(configuration)
    packed, scales, _ = quantizer.qbits_block_quant(np.ascontiguousarray(matrix))
    return Blocks(packed, scales, options.bits)


def _quantizers() -> Any:
    """Import onnxruntime's module, and undo the logging setup that it makes for the whole process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        return importlib.import_module("onnxruntime.quantization.matmul_nbits_quantizer")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
