"""Numbers in 8 bits with a scale for each row: which nodes write them, and that they are those of ``rounded``."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from ffn_export.core.types import Array
from ffn_export.fusion.builder import Builder
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import quantize
from ffn_export.quantization.row_scales import BLOCK_OPSET, FLOORED, SYMMETRIC, InputTraits, Range
from tests.quantization.test_quantize import graph, operators, relative, run

EVERY = (SYMMETRIC, Range(4.0), Range(float("inf")), FLOORED["Gelu"])
SHAPES = ((1, 40), (5000, 40), (1, 1, 40), (2, 9, 40), (2, 3, 4, 40))
EMPTY = ((0, 40), (0, 9, 40), (2, 0, 40), (0, 0, 40))
SIZES = ["ReduceMax", "ReduceMin", "Mul", "Max", "Slice", "Mul"]
# A caller may give a row with NaN beside numbers, which a maximum may pass over.
GIVEN_SIZES = ["ReduceMax", "ReduceMin", "Mul", "Mul", "ReduceSum", "Max", "Slice", "Mul"]
BLOCKS = ["Shape", "ConstantOfShape", "QuantizeLinear"]
DIVIDED = ["Div", "QuantizeLinear"]
AFTER = ["MatMulIntegerToFloat", "Mul"]
DRAW = np.random.default_rng(0)


def written(held: Range, shape: tuple[int, ...], *, in_blocks: bool = True) -> ir.Model:
    """A model of rows ``x`` that returns their numbers and divisors."""
    opset = BLOCK_OPSET if in_blocks else 13
    op = Builder()
    x = ir.Value(
        name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([f"d{axis}" for axis in range(len(shape))])
    )
    found = held.quantize(op, x, InputTraits(opset, 40 if in_blocks else None))
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


@pytest.mark.parametrize(("shape", "in_blocks"), [*product(SHAPES, (False, True)), ((40,), False)])
@pytest.mark.parametrize("held", EVERY)
def test_the_numbers_are_those_of_the_model_in_numpy(held: Range, shape: tuple[int, ...], in_blocks: bool) -> None:
    x = drawn(held, shape)
    numbers, rows = by_onnxruntime(written(held, shape, in_blocks=in_blocks), x)
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


@pytest.mark.parametrize(
    ("rows", "opset", "after", "nodes"),
    [
        ("batch,seq", 11, 21, BLOCKS),  # raised
        ("rows", 20, 21, BLOCKS),
        ("rows", 23, 23, BLOCKS),
        (None, 20, 21, DIVIDED),  # onnxruntime takes no block of a value with one axis
    ],
)
def test_rows_are_blocks_where_the_operators_allow(rows: str | None, opset: int, after: int, nodes: list[str]) -> None:
    model = graph("m = MatMul(x, w) y = MatMul(m, v)", rows=rows or "1")
    if rows is None:
        for value in (*model.graph.inputs, *model.graph.outputs):
            value.shape = ir.Shape([40])
    model.opset_imports[""] = opset
    quantized, _ = quantize(model, QuantizationOptions(int8=True, all_products=True))
    assert quantized.opset_imports[""] == after
    assert operators(quantized) == [*GIVEN_SIZES, *nodes, *AFTER, *SIZES, *nodes, *AFTER]
    x = DRAW.standard_normal(40 if rows is None else (2,) * (1 + rows.count(",")) + (40,)).astype(np.float32)
    assert relative(run(quantized, x), run(model, x)) < 0.03
    values = [output for node in quantized.graph for output in node.outputs if not output.is_graph_output()]
    assert [value for value in values if value.shape is not None] == []  # no shape is stated that the model did not


def test_an_opset_that_cannot_be_raised_stays() -> None:
    """``Softmax`` of opset 11 is over all axes from the first one on, which no later one can say."""
    model = graph("m = MatMul(x, w) s = Softmax <axis = 1> (m) y = MatMul(s, v)")
    model.opset_imports[""] = 11
    quantized, _ = quantize(model, QuantizationOptions(int8=True, all_products=True))
    assert quantized.opset_imports[""] == 11
    assert operators(quantized)[: len(GIVEN_SIZES) + 3] == [*GIVEN_SIZES, *DIVIDED, AFTER[0]]
    x = DRAW.normal(scale=0.1, size=(2, 3, 40)).astype(np.float32)
    assert relative(run(quantized, x), run(model, x)) < 0.03
