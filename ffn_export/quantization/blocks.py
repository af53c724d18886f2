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
        numbers = self.packed
        if self.bits == 4:
            numbers = np.stack([numbers & 15, numbers >> 4], axis=-1).reshape(*numbers.shape[:-1], -1)
        stored: Array = (numbers.astype(np.float32) - 2 ** (self.bits - 1)) * self.scales[:, :, None].astype(np.float32)
        return stored.reshape(len(stored), -1)[:, :d_in].T


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
