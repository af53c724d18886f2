"""Products, sums and polynomials are read whatever nodes spell them."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion import algebra
from ffn_export.fusion.algebra import Coefficient, Polynomial, Product
from tests.fusion.graphs import cast, model

INPUTS = "float[2,8] x, float[2,8] z, float k = {3}"
CONSTANTS = """float two = {2}, float four = {4}, float half = {0.5}, float zero = {0}, float[1,1,1] wide = {2},
    float root = {1.4142135}, float three = {3}, float[8] row = {1,2,3,4,5,6,7,8}"""


def graph(body: str) -> ir.Graph:
    return model(body, CONSTANTS, inputs=INPUTS, outputs="float[] y").graph


def product(body: str, *stop: str) -> tuple[float, dict[str, float]]:
    read = read_product(body, *stop)
    return read.coefficient.number, {str(value.name): power for value, power in read.factors.items()}


def read_product(body: str, *stop: str) -> Product:
    of = graph(body)
    values = {value.name: value for node in of for value in node.outputs} | {value.name: value for value in of.inputs}
    return algebra.product(of.outputs[0], of, [values[name] for name in stop])


@pytest.mark.parametrize(
    ("body", "number", "factors"),
    [
        ("y = Mul(x, z)", 1, {"x": 1, "z": 1}),
        ("y = Mul(x, x)", 1, {"x": 2}),
        ("y = Div(x, z)", 1, {"x": 1, "z": -1}),
        ("a = Mul(x, two) y = Div(a, four)", 0.5, {"x": 1}),
        ("y = Div(two, x)", 2, {"x": -1}),
        ("r = Reciprocal(x) y = Mul(r, two)", 2, {"x": -1}),
        ("n = Neg(x) y = Mul(n, two)", -2, {"x": 1}),
        ("r = Sqrt(z) y = Div(x, r)", 1, {"x": 1, "z": -0.5}),
        ("r = Sqrt(z) i = Reciprocal(r) y = Mul(x, i)", 1, {"x": 1, "z": -0.5}),
        ("r = Pow(z, half) y = Div(x, r)", 1, {"x": 1, "z": -0.5}),
        ("m = Mul(x, z) y = Pow(m, two)", 1, {"x": 2, "z": 2}),
        ("m = Mul(x, z) y = Sqrt(m)", 1, {"m": 0.5}),  # sqrt(a * a) is |a|
        ("m = Mul(x, two) y = Pow(m, two)", 1, {"m": 2}),
        ("a = Add(x, z) y = Mul(a, two)", 2, {"a": 1}),
        ("y = Mul(x, row)", 1, {"x": 1, "row": 1}),
        ("y = Mul(two, four)", 8, {}),
        ("r = Sqrt(four) y = Mul(x, r)", 2, {"x": 1}),
        ("y = Div(x, zero)", 1, {"y": 1}),  # a division by zero is not worked out
        ("y = Pow(x, z)", 1, {"y": 1}),
        ("y = Pow(x, wide)", 1, {"y": 1}),  # the exponent gives the power an axis
        ("y = Mul(x)", 1, {"y": 1}),
    ],
)
def test_product(body: str, number: float, factors: dict[str, float]) -> None:
    assert product(body) == (number, factors)


@pytest.mark.parametrize("exponent", [math.nan, math.inf, -math.inf])
def test_an_exponent_that_is_not_finite_is_a_power_of_no_polynomial(exponent: float) -> None:
    of = graph("y = Pow(x, two)")
    of.initializers["two"].const_value = ir.tensor(np.float32(exponent), name="two")
    ((factor, power),) = algebra.product(of.outputs[0], of).factors.items()
    assert factor is of.inputs[0]
    assert str(power) == str(exponent)
    assert algebra.polynomial(of.outputs[0], of.inputs[0], of) is None


def test_the_axes_of_an_exponent_count_where_no_shape_is_stated() -> None:
    of = graph("y = Pow(x, wide)")
    of.initializers["wide"].shape = None
    assert algebra.exponent_of(of[0]) is None  # the power of a matrix would have three axes
    of.inputs[0].shape = ir.Shape([2, 3, 8])
    assert algebra.exponent_of(of[0]) == 2


def test_what_is_named_is_not_taken_apart() -> None:
    body = "m = Mul(x, z) y = Mul(m, two)"
    assert product(body) == (2, {"x": 1, "z": 1})
    assert product(body, "m") == (2, {"m": 1})


def test_a_number_that_the_caller_may_change_is_a_number_that_is_not_known() -> None:
    read = read_product("y = Mul(x, k)")
    assert not read.coefficient.is_known
    assert not read.coefficient.equals(3.0)
    assert [value.name for value in read.factors] == ["x"]


def test_nodes_of_other_graphs_are_not_read() -> None:
    of = graph("y = Mul(x, z)")
    assert list(algebra.product(of.outputs[0], object()).factors) == [of.outputs[0]]
    assert algebra.terms(of.outputs[0], object(), most=8)[1] == []
    assert algebra.polynomial(of.outputs[0], of.inputs[0], object()) is None


def test_reading_stops_after_so_many_nodes() -> None:
    chain = " ".join(f"v{i + 1} = Mul(v{i}, v{i})" for i in range(60))
    of = graph(f"v0 = Mul(x, z) {chain} y = Neg(v60)")
    assert len(algebra.product(of.outputs[0], of).nodes) <= 24
    sums = " ".join(f"v{i + 1} = Add(v{i}, v{i})" for i in range(60))
    of = graph(f"v0 = Add(x, z) {sums} y = Neg(v60)")
    assert algebra.terms(of[-2].outputs[0], of, most=24) == ((), [])
    assert algebra.polynomial(of.outputs[0], of.inputs[0], of) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Add(x, z)", [(1, ["x"]), (1, ["z"])]),
        ("y = Sub(x, z)", [(1, ["x"]), (-1, ["z"])]),
        ("a = Sub(z, two) y = Sub(x, a)", [(1, ["x"]), (-1, ["z"]), (2, [])]),
        ("m = Mul(x, two) y = Add(m, four)", [(2, ["x"]), (4, [])]),
        ("y = Mul(x, two)", [(2, ["x"])]),
    ],
)
def test_terms(body: str, expected: list[tuple[float, list[str]]]) -> None:
    of = graph(body)
    terms, _ = algebra.terms(of.outputs[0], of, most=8)
    assert [(t.coefficient.number, [v.name for v in t.factors]) for t in terms] == expected


def polynomial(body: str) -> Polynomial | None:
    of = graph(body)
    return algebra.polynomial(of.outputs[0], of.inputs[0], of)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Mul(x, two)", {1: 2}),
        ("y = Div(x, two)", {1: 0.5}),
        ("y = Add(x, two)", {0: 2, 1: 1}),
        ("y = Sub(two, x)", {0: 2, 1: -1}),
        ("y = Neg(x)", {1: -1}),
        ("y = Pow(x, three)", {3: 1}),
        ("s = Mul(x, x) y = Mul(s, x)", {3: 1}),
        ("s = Mul(x, x) a = Add(s, two) y = Mul(a, x)", {1: 2, 3: 1}),
        ("a = Add(x, two) y = Pow(a, two)", {0: 4, 1: 4, 2: 1}),
        ("a = Add(x, x) y = Add(a, x)", {1: 3}),
    ],
)
def test_polynomial(body: str, expected: dict[int, float]) -> None:
    read = polynomial(body)
    assert read is not None
    assert {power: c.number for power, c in read.coefficients.items()} == expected
    assert read.equals(expected)
    assert not read.equals(expected | {5: 1.0})


@pytest.mark.parametrize(
    "body",
    [
        "y = Mul(x, z)",
        "y = Div(two, x)",
        "y = Div(x, zero)",
        "y = Sqrt(x)",
        "y = Pow(x, half)",
        "y = Exp(x)",
        "y = Mul(x, row)",
        "y = Add(x)",
    ],
)
def test_what_is_no_polynomial(body: str) -> None:
    assert polynomial(body) is None


def test_the_rank_of_constants_is_kept() -> None:
    assert read_product("y = Mul(x, wide)").coefficient.rank == 3
    read = polynomial("a = Mul(x, wide) y = Add(a, two)")
    assert read is not None
    assert read.rank == 3
    of = graph("c = Div(wide, two) y = Mul(x, c)")
    assert of[0].outputs[0].shape is None  # nobody states it
    assert algebra.product(of.outputs[0], of).coefficient.rank == 3


def test_a_number_is_held_to_the_dtypes_of_its_constants() -> None:
    exact, rounded = Coefficient(0.5), Coefficient(float(np.float32(math.sqrt(0.5))), 1e-7, 1)
    assert exact.equals(0.5)
    assert rounded.equals(math.sqrt(0.5))
    assert not rounded.equals(0.70711)
    twice = rounded.times(rounded)
    assert twice is not None
    assert twice.equals(0.5)  # made of two rounded ones
    assert not Coefficient(0.50000006, 1e-7, 1).equals(0.5)  # one that could have said 0.5
    beside = exact.times(Coefficient(1.0000001, 1e-7, 1))
    assert beside is not None
    assert not beside.equals(0.5)
    assert exact.times(Coefficient(0.0), -1) is None


def test_rounding_grows_with_the_dtype() -> None:
    of = cast(model("y = Mul(x, root)", CONSTANTS, inputs="float[2,8] x", outputs="float[] y"), ir.DataType.FLOAT16)
    half = algebra.product(of.graph.outputs[0], of.graph).coefficient
    assert half.equals(math.sqrt(2))
    assert not half.equals(math.sqrt(2) * 1.001)
    assert not read_product("y = Mul(x, root)").coefficient.equals(math.sqrt(2) * 1.0001)


def test_numbers_that_every_dtype_states_do_not_loosen_the_others() -> None:
    """The number after 0.5 in float16, beside a constant that is exact: two roundings would make it 0.5."""
    body = "a = Mul(x, one) y = Mul(a, next)"
    constants = "float one = {1}, float next = {0.50048828125}"
    of = cast(model(body, constants, inputs="float[2,8] x", outputs="float[] y"), ir.DataType.FLOAT16)
    assert not algebra.product(of.graph.outputs[0], of.graph).coefficient.equals(0.5)
