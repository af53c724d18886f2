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


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("cube", ["Pow", "Mul"])
@pytest.mark.parametrize("association", ASSOCIATIONS)
def test_every_operand_order(association: str, cube: str) -> None:
    # The square's operands are one value: its order is no order, and its bit stays 0.
    orders = range(2**6) if cube == "Pow" else range(0, 2**8, 2)
    writers = [write(association, cube, order, to=f"y{order}") for order in orders]
    outputs = ", ".join(f"float[batch,seq,8] y{order}" for order in orders)
    fused, report = assert_fuses(model(body(*writers), CONSTANTS, outputs=outputs, opset=20), ["Gelu"] * len(orders))
    assert report.rules == {"gelu": len(orders)}
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
    assert_refuses(gelu(rounded), "the factor 0.797884561 of x^1, the graph has 0.7978515")
    next_number = CONSTANTS.replace(OUTER, "0.79833984375")
    assert_refuses(
        cast(gelu(next_number), ir.DataType.FLOAT16), "the factor 0.797884561 of x^1, the graph has 0.79833984"
    )


@pytest.mark.parametrize(
    ("number", "other", "reason"),
    [
        (OUTER, "0.79", "the factor 0.797884561 of x^1, the graph has 0.79"),
        (OUTER, "0.7978", "the factor 0.797884561 of x^1, the graph has 0.7978"),
        (OUTER, "0.797885", "of x^1"),
        ("0.044715", "0.0447", "of x^3, the graph has"),
        ("half = {0.5}", "half = {0.25}", "the graph has x * (0.25 + 0.25 * g)"),
        ("one = {1}", "one = {2}", "the graph has x * (1 + 0.5 * g)"),
        ("float inner = {0.044715}", "float[1,1,1,1] inner = {0.044715}", "a constant of the activation has an axis"),
    ],
)
def test_refuses_other_constants(number: str, other: str, reason: str) -> None:
    report = assert_refuses(gelu(CONSTANTS.replace(number, other)), reason)
    assert report.sites[0].rule == "gelu"


@pytest.mark.parametrize(("exponent", "runs"), [("2", True), ("4", True), ("3.0000002", False), ("-3", True)])
def test_another_power_is_another_function(exponent: str, runs: bool) -> None:
    # A broken power of a negative number is NaN.
    assert_refuses(gelu(CONSTANTS.replace("three = {3}", f"three = {{{exponent}}}")), None, runs=runs)


@pytest.mark.parametrize("inner", ["float[1] inner", "float[1,1] inner", "float[1,1,1] inner"])
def test_constants_with_no_more_axes_than_the_input(inner: str) -> None:
    assert_fuses(gelu(CONSTANTS.replace("float inner", inner)), ["Gelu"])


@pytest.mark.parametrize(
    "argument",
    [
        "s = Mul(x, x) m = Mul(s, inner) p = Add(one, m) q = Mul(p, outer) a = Mul(x, q)",  # x * (a + b * x^2)
        "c = Pow(x, three) m = Mul(c, inner) o = Mul(m, outer) l = Mul(x, outer) a = Add(o, l)",  # multiplied out
        "s = Mul(x, x) c = Mul(s, x) m = Mul(c, inner) p = Add(m, x) a = Div(p, root)",
        "s = Mul(x, x) c = Mul(s, x) m = Mul(c, minus) p = Sub(x, m) a = Mul(outer, p)",
    ],
)
def test_the_argument_in_other_words(argument: str) -> None:
    gate = " t = Tanh(a) g = Add(t, one) h = Mul(x, half) y = Mul(h, g)"
    constants = CONSTANTS + f", float root = {{{math.sqrt(math.pi / 2):.17g}}}, float minus = {{-0.044715}}"
    fused, _ = assert_fuses(model(argument + gate, constants, opset=20), ["Gelu"])
    assert fused.graph[0].attributes.get_string("approximate") == "tanh"


def test_through_a_sigmoid_of_twice_the_argument() -> None:
    pieces = "c = Pow(x, three) m = Mul(c, inner) p = Add(x, m) a = Mul(p, twice) s = Sigmoid(a) y = Mul(x, s)"
    twice = f", float twice = {{{2 * math.sqrt(2 / math.pi):.17g}}}"
    assert_fuses(model(pieces, CONSTANTS + twice, opset=20), ["Gelu"])
    once = model(pieces.replace("twice", "outer"), CONSTANTS, opset=20)
    assert_refuses(once, "tanh GELU wants the factor 1.59576912 of x^1, the graph has 0.797")


def test_refuses_a_constant_that_the_caller_may_override() -> None:
    constants = CONSTANTS.replace("float inner = {0.044715}, ", "")
    inputs = "float[2,8] x, float inner = {0.044715}"
    of = model(body(write("x*half first", "Pow")), constants, inputs=inputs, outputs="float[2,8] y", opset=20)
    assert_refuses(of, "a constant of the tanh GELU is one that the caller may change")


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
