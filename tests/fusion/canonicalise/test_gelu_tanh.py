"""The tanh GELU: every spelling becomes one Gelu of the tanh kind, and nothing else does."""

from __future__ import annotations

import math

import onnx_ir as ir
import pytest

from tests.fusion.graphs import Writer, assert_fuses, assert_refuses, body, cast, model

OUTER = f"{math.sqrt(2 / math.pi):.17g}"
CONSTANTS = (
    "float half = {0.5}, float one = {1}, float inner = {0.044715}, float three = {3}, "
    f"float outer = {{{OUTER}}}"
)
ASSOCIATIONS = ("half*gate first", "x*gate first", "x*half first")


def write(association: str, cube: str, order: int = 0, to: str = "y") -> Writer:
    op = Writer(order)
    cubed = op("Pow", "x", "three") if cube == "Pow" else op("Mul", "x", op("Mul", "x", "x"))
    argument = op("Mul", "outer", op("Add", "x", op("Mul", "inner", cubed)))
    gate = op("Add", op("Tanh", argument), "one")
    if association == "half*gate first":
        op("Mul", "x", op("Mul", "half", gate), to=to)
    elif association == "x*gate first":
        op("Mul", op("Mul", "x", gate), "half", to=to)
    else:
        op("Mul", op("Mul", "x", "half"), gate, to=to)
    return op


def gelu(constants: str = CONSTANTS, cube: str = "Pow") -> ir.Model:
    return model(body(write("x*half first", cube)), constants, opset=20)


@pytest.mark.parametrize("cube", ["Pow", "Mul"])
@pytest.mark.parametrize("association", ASSOCIATIONS)
def test_every_operand_order(association: str, cube: str) -> None:
    # The square's operands are one value: its order is no order, and its bit stays 0.
    orders = range(2**6) if cube == "Pow" else range(0, 2**8, 2)
    writers = [write(association, cube, order, to=f"y{order}") for order in orders]
    outputs = ", ".join(f"float[batch,seq,8] y{order}" for order in orders)
    fused, report = assert_fuses(model(body(*writers), CONSTANTS, outputs=outputs, opset=20), ["Gelu"] * len(orders))
    assert report.rules == {"gelu-tanh": len(orders)}
    assert {node.attributes.get_string("approximate") for node in fused.graph} == {"tanh"}


def test_integer_exponent() -> None:
    assert_fuses(gelu(CONSTANTS.replace("float three", "int64 three")), ["Gelu"])


def test_numbers_that_programs_write() -> None:
    for outer in ("0.7978845608028654", "0.7978845608", "0.79788456"):
        assert_fuses(gelu(CONSTANTS.replace(OUTER, outer)), ["Gelu"])


def test_constants_rounded_to_float16_in_a_float16_graph() -> None:
    assert_fuses(cast(gelu(), ir.DataType.FLOAT16), ["Gelu"])
    # The same numbers are wrong where the dtype can tell them from the true ones.
    rounded = CONSTANTS.replace(OUTER, "0.7978515625")
    assert_refuses(gelu(rounded), "sqrt(2/pi) = 0.797884561, the graph has 0.7978515")
    next_number = CONSTANTS.replace(OUTER, "0.79833984375")
    assert_refuses(cast(gelu(next_number), ir.DataType.FLOAT16), "sqrt(2/pi) = 0.797884561, the graph has 0.79833984")


@pytest.mark.parametrize(
    ("number", "other", "reason"),
    [
        (OUTER, "0.79", "sqrt(2/pi) = 0.797884561, the graph has 0.79"),
        (OUTER, "0.7978", "sqrt(2/pi) = 0.797884561, the graph has 0.7978"),
        (OUTER, "0.797885", "sqrt(2/pi)"),
        ("0.044715", "0.0447", "the factor of the cube = 0.044715"),
        ("half = {0.5}", "half = {0.25}", "the factor of x = 0.5"),
        ("one = {1}", "one = {2}", "the summand = 1"),
        ("three = {3}", "three = {2}", "the exponent = 3, the graph has 2"),
        ("float inner = {0.044715}", "float[1,1] inner = {0.044715}", "the factor of the cube"),
    ],
)
def test_refuses_other_constants(number: str, other: str, reason: str) -> None:
    report = assert_refuses(gelu(CONSTANTS.replace(number, other)), reason)
    assert report.sites[0].rule == "gelu-tanh"


def test_refuses_an_exponent_beside_3() -> None:
    # Such a power of a negative number is NaN.
    assert_refuses(gelu(CONSTANTS.replace("three = {3}", "three = {3.0000002}")), "the exponent = 3", runs=False)


def test_cube_of_another_value_is_another_function() -> None:
    op = Writer()
    argument = op("Mul", "outer", op("Add", "x", op("Mul", "inner", op("Pow", "z", "three"))))
    op("Mul", op("Mul", "x", "half"), op("Add", op("Tanh", argument), "one"), to="y")
    two = "float[2,8] x, float[2,8] z"
    assert_refuses(model(body(op), CONSTANTS, inputs=two, outputs="float[2,8] y", opset=20), None)


def test_fourth_power_as_products_is_another_function() -> None:
    op = Writer()
    square = op("Mul", "x", "x")
    argument = op("Mul", "outer", op("Add", "x", op("Mul", "inner", op("Mul", square, square))))
    op("Mul", op("Mul", "x", "half"), op("Add", op("Tanh", argument), "one"), to="y")
    assert_refuses(model(body(op), CONSTANTS, opset=20), None)


def test_the_square_that_is_read_elsewhere_stays() -> None:
    op = write("x*half first", "Mul")
    square = op.lines[0].split(" = ")[0]
    op("Identity", square, to="z")
    assert_refuses(
        model(body(op), CONSTANTS, outputs="float[batch,seq,8] y, float[batch,seq,8] z", opset=20),
        f"intermediate '{square}' is also read by Identity",
    )
