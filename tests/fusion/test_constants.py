"""Reading numbers out of a graph: only those that no caller can change, and no looser than their dtype."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion import constants
from tests.fusion.graphs import model

ROOT = math.sqrt(2 / math.pi)


def initializer(array: object, dtype: ir.DataType | None = None) -> ir.Value:
    tensor = ir.tensor(array, dtype=dtype, name="c")  # type: ignore[arg-type]
    return ir.Value(name="c", type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)  # type: ignore[arg-type]


def node_output(attributes: str) -> ir.Value:
    return model(f"c = Constant<{attributes}>() y = Mul(x, c)").graph[0].outputs[0]


@pytest.mark.parametrize("attributes", ["value_float = 1.5", "value_floats = [1.5]", "value = float {1.5}"])
def test_constant_nodes(attributes: str) -> None:
    assert constants.scalar(node_output(attributes)) == 1.5
    assert constants.equals(node_output(attributes), 1.5)


def test_integer_constant_nodes() -> None:
    assert constants.equals(node_output("value_int = 3"), 3.0)
    assert constants.integers(node_output("value_ints = [-1, 2]")) == (-1, 2)
    assert constants.integers(node_output("value_int = 2")) == (2,)
    assert constants.integers(node_output("value_floats = [1.0]")) is None
    assert constants.integers(None) is None


@pytest.mark.parametrize("attributes", ['value_string = "a"', 'value_strings = ["a"]'])
def test_strings_are_no_numbers(attributes: str) -> None:
    assert constants.is_constant(node_output(attributes))
    assert constants.scalar(node_output(attributes)) is None
    assert constants.integers(node_output(attributes)) is None


def test_bool_and_complex_are_no_numbers() -> None:
    assert constants.scalar(initializer(np.array(True))) is None
    assert constants.scalar(initializer(np.array(1 + 2j))) is None


def test_constant_node_that_onnx_ir_does_not_know() -> None:
    for attributes in ([], [ir.AttrFloat32("value_float", 1.0), ir.AttrFloat32("other", 2.0)], [ir.AttrInt64("q", 1)]):
        node = ir.Node("", "Constant", [], attributes)
        if len(attributes) != 1:
            assert constants.scalar(node.outputs[0]) is None
    assert constants.scalar(ir.Node("my", "Constant", [], [ir.AttrFloat32("value_float", 1.0)]).outputs[0]) is None
    two = ir.Node("", "Constant", [], [ir.AttrFloat32("value_float", 1.0)], num_outputs=2)
    assert constants.scalar(two.outputs[0]) is None


def test_computed_value_is_not_constant_whatever_is_noted_on_it() -> None:
    value = ir.Node("", "Neg", [initializer(np.float32(1))]).outputs[0]
    value.const_value = ir.tensor(np.float32(-1), name="c")
    assert not constants.is_constant(value)


def test_overridable_initializer() -> None:
    of = model("y = Mul(x, c)", inputs="float[2,8] x, float c = {1.5}", outputs="float[2,8] y")
    value = of.graph.inputs[1]
    assert value.is_initializer()
    assert not constants.is_constant(value)
    assert constants.scalar(value) is None
    assert constants.describe(value) == "'c'"


@pytest.mark.parametrize(
    ("shape", "is_scalar"), [((), True), ((1,), True), ((1, 1), False), ((2,), False), ((0,), False)]
)
def test_shapes_of_a_scalar(shape: tuple[int, ...], is_scalar: bool) -> None:
    value = initializer(np.full(shape, 0.5, np.float32))
    assert (constants.scalar(value) == 0.5) is is_scalar
    assert constants.equals(value, 0.5) is is_scalar


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_rounded_to_the_dtype_and_no_further(dtype: type) -> None:
    for number in (ROOT, 0.044715, math.sqrt(0.5), math.sqrt(2)):
        nearest: Any = np.asarray(number).astype(dtype)
        assert constants.equals(initializer(nearest), number)
        if dtype in (np.float16, ml_dtypes.bfloat16):
            step = np.spacing(nearest)
            assert not constants.equals(initializer(nearest + step), number)
            assert not constants.equals(initializer(nearest - step), number)
        assert not constants.equals(initializer(np.asarray(number * 1.01).astype(dtype)), number)


@pytest.mark.parametrize("wrong", [0.79, 0.7978, 0.79788, 0.797885, 0.7978846])
def test_too_short_a_constant(wrong: float) -> None:
    assert constants.equals(initializer(np.float32(wrong)), ROOT) is (wrong == 0.7978846)


@pytest.mark.parametrize("number", [0.5, 1.0, 2.0, 3.0])
def test_exact_numbers_are_asked_exactly(number: float) -> None:
    assert constants.equals(initializer(np.float32(number)), number)
    assert not constants.equals(initializer(np.nextafter(np.float32(number), np.float32(9))), number)
    assert not constants.equals(initializer(np.nextafter(np.float32(number), np.float32(0))), number)


@pytest.mark.parametrize("number", [np.nan, np.inf, -0.5])
def test_other_numbers(number: float) -> None:
    assert not constants.equals(initializer(np.float32(number)), 0.5)


def test_dtype_is_that_of_the_tensor() -> None:
    value = initializer(np.float16(ROOT))
    value.type = None
    assert constants.equals(value, ROOT)


def test_every_dtype_can_be_asked() -> None:
    for dtype in ir.DataType:
        assert constants.rounding(0.5, dtype) >= 0


def test_large_weights_are_not_read() -> None:
    class Weights(ir.LazyTensor):
        def numpy(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
            raise AssertionError("read")

    lazy = Weights(lambda: ir.tensor([0.0]), dtype=ir.DataType.FLOAT, shape=ir.Shape([4096, 4096]), name="w")
    value = ir.Value(name="w", const_value=lazy)
    assert constants.scalar(value) is None
    assert constants.describe(value) == "'w'"


def test_may_widen() -> None:
    scalar, vector = initializer(np.float32(1)), initializer(np.ones(1, np.float32))
    unknown, rank_0, rank_1 = ir.Value(name="x"), ir.Value(name="x", shape=ir.Shape([])), ir.Value(shape=ir.Shape([3]))
    assert not constants.may_widen(scalar, unknown)
    assert not constants.may_widen(vector, rank_1)
    assert constants.may_widen(vector, unknown)
    assert constants.may_widen(vector, rank_0)
    assert not constants.may_widen(None, unknown)


def test_describe() -> None:
    assert constants.describe(initializer(np.float32(0.79))) == "0.790000021"
    assert constants.describe(None) == "None"
