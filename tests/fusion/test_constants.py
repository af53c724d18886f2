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
from tests.fuzz.hostile import RECIPES

ROOT = math.sqrt(2 / math.pi)


def initializer(array: object, dtype: ir.DataType | None = None) -> ir.Value:
    tensor = ir.tensor(array, dtype=dtype, name="c")  # type: ignore[arg-type]
    return ir.Value(name="c", type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)  # type: ignore[arg-type]


def node_output(attributes: str) -> ir.Value:
    return model(f"c = Constant<{attributes}>() y = Mul(x, c)").graph[0].outputs[0]


@pytest.mark.parametrize("attributes", ["value_float = 1.5", "value_floats = [1.5]", "value = float {1.5}"])
def test_constant_nodes(attributes: str) -> None:
    assert constants.number(node_output(attributes)) == 1.5


def test_integer_constant_nodes() -> None:
    assert constants.number(node_output("value_int = 3")) == 3.0
    assert constants.integers(node_output("value_ints = [-1, 2]")) == (-1, 2)
    assert constants.integers(node_output("value_int = 2")) == (2,)
    assert constants.integers(node_output("value_floats = [1.0]")) is None
    assert constants.integers(None) is None


@pytest.mark.parametrize("attributes", ['value_string = "a"', 'value_strings = ["a"]'])
def test_strings_are_no_numbers(attributes: str) -> None:
    assert constants.is_constant(node_output(attributes))
    assert constants.number(node_output(attributes)) is None
    assert constants.integers(node_output(attributes)) is None


def test_bool_and_complex_are_no_numbers() -> None:
    assert constants.number(initializer(np.array(True))) is None
    assert constants.number(initializer(np.array(1 + 2j))) is None


def test_constant_node_that_onnx_ir_does_not_know() -> None:
    for attributes in ([], [ir.AttrFloat32("value_float", 1.0), ir.AttrFloat32("other", 2.0)], [ir.AttrInt64("q", 1)]):
        node = ir.Node("", "Constant", [], attributes)
        if len(attributes) != 1:
            assert constants.number(node.outputs[0]) is None
    assert constants.number(ir.Node("my", "Constant", [], [ir.AttrFloat32("value_float", 1.0)]).outputs[0]) is None
    two = ir.Node("", "Constant", [], [ir.AttrFloat32("value_float", 1.0)], num_outputs=2)
    assert constants.number(two.outputs[0]) is None


def test_computed_value_is_not_constant_whatever_is_noted_on_it() -> None:
    value = ir.Node("", "Neg", [initializer(np.float32(1))]).outputs[0]
    value.const_value = ir.tensor(np.float32(-1), name="c")
    assert not constants.is_constant(value)


def test_overridable_initializer() -> None:
    of = model("y = Mul(x, c)", inputs="float[2,8] x, float c = {1.5}", outputs="float[2,8] y")
    value = of.graph.inputs[1]
    assert value.is_initializer()
    assert not constants.is_constant(value)
    assert constants.number(value) is None


@pytest.mark.parametrize(
    ("shape", "is_one"), [((), True), ((1,), True), ((1, 1), True), ((2,), False), ((0,), False), ((1, 2), False)]
)
def test_a_number_has_one_element_and_any_rank(shape: tuple[int, ...], is_one: bool) -> None:
    value = initializer(np.full(shape, 0.5, np.float32))
    assert constants.number(value) == (0.5 if is_one else None)
    assert constants.rank(value) == len(shape)


@pytest.mark.parametrize(
    ("casts", "number"),
    [
        ("c = Cast<to = 11>(k)", float(np.float32(1.7))),
        ("c = Cast<to = 7>(k)", 1.0),
        ("h = Cast<to = 7>(k) c = Cast<to = 1>(h)", 1.0),
        ("h = Cast<to = 10>(k) c = Cast<to = 1>(h)", float(np.float16(1.7))),
        ("h = Cast<to = 16>(k) c = Cast<to = 1>(h)", float(np.asarray(1.7).astype(ml_dtypes.bfloat16))),
        ("h = Identity(k) c = Cast<to = 1>(h)", float(np.float32(1.7))),
        ("c = Cast<to = 9>(k)", None),  # a truth value
        ("h = Cast<to = 9>(k) c = Cast<to = 1>(h)", 1.0),
    ],
)
def test_a_number_is_what_its_casts_make_of_it(casts: str, number: float | None) -> None:
    of = model(f"{casts} y = Neg(x)", "float k = {1.7}")
    assert constants.number(of.graph[-2].outputs[0]) == number


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_rounding_to_the_dtype_and_no_further(dtype: type) -> None:
    for number in (ROOT, 0.044715, math.sqrt(0.5), math.sqrt(2)):
        nearest: Any = np.asarray(number).astype(dtype)
        allowed = constants.rounding(number, ir.DataType.from_numpy(nearest.dtype))
        assert abs(float(nearest) - number) <= allowed
        if dtype in (np.float16, ml_dtypes.bfloat16):
            step = np.spacing(nearest)
            assert min(abs(float(nearest + step) - number), abs(float(nearest - step) - number)) > allowed
        assert abs(float(np.asarray(number * 1.01).astype(dtype)) - number) > allowed


@pytest.mark.parametrize("short", [0.79, 0.7978, 0.79788, 0.797885, 0.7978846])
def test_too_short_a_constant(short: float) -> None:
    error = abs(float(np.float32(short)) - ROOT)
    assert (error <= constants.rounding(ROOT, ir.DataType.FLOAT)) is (short == 0.7978846)


@pytest.mark.parametrize("number", [0.5, 1.0, 2.0, 3.0])
def test_numbers_that_a_dtype_holds_are_not_rounded(number: float) -> None:
    assert constants.rounding(number, ir.DataType.FLOAT16) == 0


def test_every_dtype_can_be_asked() -> None:
    for dtype in ir.DataType:
        assert constants.rounding(0.5, dtype) >= 0


def test_large_weights_are_not_read() -> None:
    class Weights(ir.LazyTensor):
        def numpy(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
            raise AssertionError("read")

    lazy = Weights(lambda: ir.tensor([0.0]), dtype=ir.DataType.FLOAT, shape=ir.Shape([4096, 4096]), name="w")
    value = ir.Value(name="w", const_value=lazy)
    assert constants.number(value) is None


def test_what_is_read_many_times_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    compute = constants._computed

    def counted(node: ir.Node, inputs: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        computed.append(node.op_type)
        return compute(node, inputs)

    monkeypatch.setattr(constants, "_computed", counted)
    doubled = ir.from_proto(RECIPES["doubled_constant"]())
    value = next(node for node in doubled.graph if node.outputs[0].name == "v6").outputs[0]
    assert constants.number(value) == 64
    assert constants.number(value) == 64
    assert computed == ["Add"] * 6


def test_a_constant_that_is_changed_is_computed_again() -> None:
    doubled = ir.from_proto(RECIPES["doubled_constant"]())
    value = next(node for node in doubled.graph if node.outputs[0].name == "v2").outputs[0]
    assert constants.number(value) == 4
    doubled.graph.initializers["v0"].const_value = ir.tensor(np.float32(3))
    assert constants.number(value) == 12


def test_a_range_without_an_end_is_no_constant() -> None:
    nothing = ir.from_proto(RECIPES["huge_range"]())
    made = next(node for node in nothing.graph if node.op_type == "Range").outputs[0]
    assert constants.evaluate(made) is None
    nothing.graph.initializers["c"].const_value = ir.tensor(np.int64(0))
    assert constants.evaluate(made) is None
