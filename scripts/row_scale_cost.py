"""Measure what a scale for each row of an 8-bit input costs over one scale for all rows, and fit two constants to it.

Products with a bias run on ONNX Runtime in both forms in turn, on one thread and 128 rows. A cost is the median of the
ratios of their times, less 1. The constants are those of ``WholeInput.saves`` in
``ffn_export/quantization/whole_input.py``, by least squares over all shapes. They and the costs go to standard output.
Exit status: 0 measured; 2 bad usage; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from command_line import seconds
from ffn_export.fusion.builder import Builder
from ffn_export.quantization.row_scales import BLOCK_OPSET, SYMMETRIC, InputTraits, Range
from ffn_export.quantization.whole_input import WHOLE, WholeInput
from ffn_export.runtimes.session_options import SessionSettings
from native_benchmark import Call, bound, in_turn, session

_ROWS = 128
# [d_in, d_out] of products in small and in large transformers; Q, K and V of one input count as one.
_SHAPES = ((384, 1152), (384, 1536), (1536, 384), (512, 32000), (768, 768), (768, 2304), (768, 3072), (3072, 768))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=seconds, default=5.0, metavar="S", help="for each shape [5]")
    options = parser.parse_args(arguments)
    costs: list[float] = []
    for d_in, d_out in _SHAPES:
        calls = {str(held): _call(d_in, d_out, held) for held in (SYMMETRIC, WHOLE)}
        rows, whole = in_turn(calls, options.seconds, time.process_time).values()
        costs.append(float(np.median(np.divide(rows, whole))) - 1)
        print(f"{d_in} x {d_out}: {costs[-1]:.2f}")
    known = np.array([[1 / d_in, 1 / d_out] for d_in, d_out in _SHAPES])
    per_column, per_channel = np.linalg.lstsq(known, np.array(costs), rcond=None)[0]
    print(f"per column {per_column:.0f}, per channel {per_channel:.0f}")
    return 0


def _call(d_in: int, d_out: int, held: Range | WholeInput) -> Call:
    """Return a call of a product with a bias, whose input is quantised in a form."""
    drawn = np.random.default_rng(0)
    op = Builder()
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([_ROWS, d_in]))
    numbers = op.constant(drawn.integers(-64, 64, (d_in, d_out), np.int8))
    scales, bias = (op.constant(drawn.uniform(0.01, 0.02, d_out).astype(np.float32)) for _ in range(2))
    if isinstance(held, WholeInput):
        y = held.quantize(op, x, InputTraits(BLOCK_OPSET)).product(op, numbers, scales, bias)
    else:
        y = op.Add(held.quantize(op, x, InputTraits(BLOCK_OPSET, d_in)).product(op, numbers, scales), bias)
    y.name, y.type = "y", ir.TensorType(ir.DataType.FLOAT)
    for index, constant in enumerate(op.constants):
        constant.name = f"c{index}"
    imports = {"": BLOCK_OPSET, "com.microsoft": 1}
    graph = ir.Graph([x], [y], nodes=op.nodes, initializers=op.constants, opset_imports=imports, name="product")
    model = ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()
    feeds = {"x": drawn.standard_normal((_ROWS, d_in), np.float32)}
    return bound(session(model, 1, None, SessionSettings()), feeds)[0]


if __name__ == "__main__":
    sys.exit(main())
