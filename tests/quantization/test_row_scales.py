"""Numbers in 8 bits with a scale for each row: which nodes write them, and that they are those of ``rounded``."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from ffn_export.core.types import Array
from ffn_export.fusion.builder import Builder
from ffn_export.quantization.row_scales import FLOORED, SYMMETRIC, Range

EVERY = (SYMMETRIC, Range(4.0), Range(float("inf")), FLOORED["Gelu"])
SHAPES = ((40,), (1, 40), (5000, 40), (1, 1, 40), (2, 9, 40), (2, 3, 4, 40))
EMPTY = ((0, 40), (0, 9, 40), (2, 0, 40), (0, 0, 40))
DRAW = np.random.default_rng(0)


def written(held: Range, shape: tuple[int, ...], opset: int = 20) -> ir.Model:
    """A model of rows ``x`` that returns their numbers and divisors."""
    op = Builder()
    x = ir.Value(
        name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([f"d{axis}" for axis in range(len(shape))])
    )
    found = held.quantize(op, x, opset)
    outputs = {"numbers": (found.numbers, ir.DataType.UINT8), "rows": (found.rows, ir.DataType.FLOAT)}
    for name, (value, dtype) in outputs.items():
        value.name, value.type = name, ir.TensorType(dtype)
    for index, constant in enumerate(op.constants):
        constant.name = f"c{index}"
    values = [value for value, _ in outputs.values()]
    graph = ir.Graph([x], values, nodes=op.nodes, initializers=op.constants, opset_imports={"": opset}, name="rows")
    return ir.Model(graph, ir_version=8)


def by_onnxruntime(model: ir.Model, x: Array, threads: int = 1) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    content = ir.to_proto(model).SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return [np.asarray(each) for each in session.run(None, {"x": x})]


def drawn(held: Range, shape: tuple[int, ...]) -> Array:
    """Rows of any size, also denormal, with one of zeros; no number is under the lowest of the range."""
    x = DRAW.standard_normal(shape).astype(np.float32) * np.exp2(DRAW.uniform(-149, 120, (*shape[:-1], 1)))
    if x.ndim > 1 and len(x) > 1:
        x[1] = 0
    if held.lowest is not None:
        x = np.maximum(x, held.lowest)
    return (np.abs(x) if held.steepness == float("inf") else x).astype(np.float32)


@pytest.mark.parametrize("opset", [13, 14, 20])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("held", EVERY)
def test_the_numbers_are_those_of_the_model_in_numpy(held: Range, shape: tuple[int, ...], opset: int) -> None:
    x = drawn(held, shape)
    numbers, rows = by_onnxruntime(written(held, shape, opset), x)
    assert (numbers.shape, rows.shape) == (shape, (*shape[:-1], 1))
    stored = (numbers.astype(np.float32) - held.zero_point) * np.float32(held.scale) * rows
    np.testing.assert_array_equal(stored.reshape(-1, 40), held.rounded(x.reshape(-1, 40)))


@pytest.mark.parametrize("shape", [*SHAPES, *EMPTY])
@pytest.mark.parametrize("held", EVERY)
def test_each_runtime_has_the_same_numbers(held: Range, shape: tuple[int, ...]) -> None:
    x, model = drawn(held, shape), written(held, shape)
    numbers, rows = by_onnxruntime(model, x)
    assert (numbers.shape, rows.shape) == (shape, (*shape[:-1], 1))
    np.testing.assert_array_equal(by_onnxruntime(model, x, threads=2)[0], numbers)
    if x.size:  # the evaluator reduces no empty array
        evaluated, _ = list(ReferenceEvaluator(ir.to_proto(model)).run(None, {"x": x}))
        np.testing.assert_array_equal(evaluated, numbers)


def test_scales_are_no_denormal_numbers() -> None:
    """A runtime may flush them to 0, and 0 / 0 is no number."""
    for held in EVERY:
        assert np.float32(held.least_size) * np.float32(held.scale) >= np.finfo(np.float32).tiny


def test_a_division_is_written_only_where_the_operators_lack_rows() -> None:
    size = ["Abs", "ReduceMax", "Max", "Slice", "Mul"]
    rows = [*size, "Reshape", "Shape", "ConstantOfShape", "Flatten", "QuantizeLinear", "Shape", "Reshape"]
    for opset, expected in ((13, [*size, "Div", "QuantizeLinear"]), (14, rows), (20, rows)):
        assert [node.op_type for node in written(SYMMETRIC, (2, 9, 40), opset).graph] == expected
