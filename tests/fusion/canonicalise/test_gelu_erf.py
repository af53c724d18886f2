"""The exact GELU: every spelling becomes one Gelu, and nothing else does."""

from __future__ import annotations

import math

import onnx_ir as ir
import pytest

from tests.fusion.graphs import Writer, assert_fuses, assert_refuses, body, cast, model

SQRT2 = f"{math.sqrt(2):.17g}"
RECIPROCAL = f"{math.sqrt(0.5):.17g}"
CONSTANTS = f"float half = {{0.5}}, float one = {{1}}, float div = {{{SQRT2}}}, float mul = {{{RECIPROCAL}}}"
ASSOCIATIONS = ("half*gate first", "x*gate first", "x*half first")


def write(association: str, argument: str, order: int = 0, to: str | None = "y", scale: str = "") -> Writer:
    op = Writer(order)
    scaled = op("Mul", "x", scale or "mul") if argument == "Mul" else op("Div", "x", scale or "div")
    gate = op("Add", op("Erf", scaled), "one")
    if association == "half*gate first":
        op("Mul", "x", op("Mul", "half", gate), to=to)
    elif association == "x*gate first":
        op("Mul", op("Mul", "x", gate), "half", to=to)
    else:
        op("Mul", op("Mul", "x", "half"), gate, to=to)
    return op


def gelu(constants: str = CONSTANTS, argument: str = "Div", opset: int = 20) -> ir.Model:
    return model(body(write("x*half first", argument)), constants, opset=opset)


@pytest.mark.parametrize("argument", ["Div", "Mul"])
@pytest.mark.parametrize("association", ASSOCIATIONS)
def test_every_operand_order(association: str, argument: str) -> None:
    orders = range(2 ** (4 if argument == "Mul" else 3))
    writers = [write(association, argument, order, to=f"y{order}") for order in orders]
    outputs = ", ".join(f"float[batch,seq,8] y{order}" for order in orders)
    spellings = model(body(*writers), CONSTANTS, outputs=outputs, opset=20)
    fused, report = assert_fuses(spellings, ["Gelu"] * len(orders))
    assert report.rules == {"gelu": len(orders)}
    assert not any(node.attributes for node in fused.graph)  # absent means the erf kind


@pytest.mark.parametrize(("opset", "raised"), [(13, 20), (14, 20), (18, 20), (20, 20), (23, 23), (26, 26)])
def test_raises_the_opset_only_as_far_as_needed(opset: int, raised: int) -> None:
    fused, report = assert_fuses(gelu(opset=opset), ["Gelu"])
    assert fused.opset_imports == {"": raised}
    assert report.opset == {"before": opset, "after": raised}


def test_constant_nodes_in_every_form() -> None:
    form = f"""
        half = Constant<value_float = 0.5>() one = Constant<value = float {{1}}>()
        div = Constant<value_floats = [{SQRT2}]>()
    """
    assert_fuses(model(form + body(write("x*half first", "Div")), opset=20), ["Gelu"])


def test_constants_of_shape_1() -> None:
    assert_fuses(gelu(CONSTANTS.replace("float half", "float[1] half").replace("float one", "float[1] one")), ["Gelu"])


def test_numbers_that_programs_write() -> None:
    for div in ("1.4142135623730951", "1.41421356", "1.414213562", "1.4142135381698608"):
        assert_fuses(gelu(CONSTANTS.replace(SQRT2, div)), ["Gelu"])


def test_constant_rounded_to_float16_in_a_float16_graph() -> None:
    assert_fuses(cast(gelu(argument="Mul"), ir.DataType.FLOAT16), ["Gelu"])
    assert_fuses(cast(gelu(CONSTANTS.replace(RECIPROCAL, "0.7071"), "Mul"), ir.DataType.FLOAT16), ["Gelu"])
    next_number = gelu(CONSTANTS.replace(RECIPROCAL, "0.70751953125"), "Mul")
    assert_refuses(cast(next_number, ir.DataType.FLOAT16), "the factor 0.707106781 of x^1, the graph has 0.70751953")


@pytest.mark.parametrize(
    ("constants", "reason"),
    [
        (CONSTANTS.replace("half = {0.5}", "half = {0.5001}"), "x * (0.5 + 0.5 * g), the graph has x * (0.50"),
        (CONSTANTS.replace("half = {0.5}", "half = {0.50000006}"), "GELU wants x * (0.5 + 0.5 * g)"),
        (CONSTANTS.replace("one = {1}", "one = {1.01}"), "the graph has x * (0.504999995 + 0.5 * g)"),
        (CONSTANTS.replace(SQRT2, "1.4142"), "the factor 0.707106781 of x^1, the graph has 0.70711"),
        (CONSTANTS.replace(SQRT2, "1.41421"), "the factor 0.707106781 of x^1"),
    ],
)
def test_refuses_other_constants(constants: str, reason: str) -> None:
    report = assert_refuses(gelu(constants), reason)
    (site,) = report.sites
    assert (site.kind, site.rule, site.form) == ("feed_forward", "gelu", "Mul Div Erf Add Mul")


def test_refuses_a_factor_in_place_of_a_divisor() -> None:
    swapped = body(write("x*half first", "Div", scale="mul"))
    assert_refuses(model(swapped, CONSTANTS, opset=20), "the factor 0.707106781 of x^1, the graph has 1.414")


def test_refuses_a_constant_that_the_caller_may_override() -> None:
    constants = CONSTANTS.replace("float half = {0.5}, ", "")
    overridable = model(
        body(write("x*half first", "Div")),
        constants,
        inputs="float[2,8] x, float half = {0.5}",
        outputs="float[2,8] y",
        opset=20,
    )
    assert_refuses(overridable, "a constant of the GELU is one that the caller may change")


def test_refuses_constants_that_would_widen_a_scalar() -> None:
    constants = CONSTANTS.replace("float half", "float[1] half")
    widened = model(body(write("x*half first", "Div")), constants, inputs="float x", outputs="float[1] y", opset=20)
    assert_refuses(widened, "a constant of the activation has an axis")
    of_unknown_rank = model(body(write("x*half first", "Div")), constants, inputs="float[] x", outputs="float[] y")
    assert_refuses(of_unknown_rank, "a constant of the activation has an axis", runs=False)


def test_a_scalar_is_fused_with_scalar_constants() -> None:
    scalar = model(body(write("x*half first", "Div")), CONSTANTS, inputs="float x", outputs="float y", opset=20)
    assert_fuses(scalar, ["Gelu"])


@pytest.mark.parametrize("half", ["float[1] half", "float[1,1,1] half"])
def test_constants_with_no_more_axes_than_the_input(half: str) -> None:
    assert_fuses(gelu(CONSTANTS.replace("float half", half)), ["Gelu"])


def test_refuses_constants_with_more_axes_than_the_input() -> None:
    constants = CONSTANTS.replace("float half", "float[1,1,1,1] half")
    widened = model(body(write("x*half first", "Div")), constants, outputs="float[1,batch,seq,8] y", opset=20)
    assert_refuses(widened, "a constant of the activation has an axis")


def test_a_factor_for_each_channel_is_another_function() -> None:
    assert_refuses(gelu(CONSTANTS.replace("float half = {0.5}", "float[8] half = {1,1,1,1,1,1,1,1}")), None)


@pytest.mark.parametrize(
    "pieces",
    [
        "d = Div(x, div) e = Erf(d) g = Add(e, one) p = Mul(x, g) y = Div(p, two)",
        "d = Div(x, div) e = Erf(d) h = Mul(e, half) g = Add(half, h) y = Mul(x, g)",  # half of the gate
        "r = Sqrt(two) d = Div(x, r) e = Erf(d) g = Add(e, one) h = Mul(x, half) y = Mul(h, g)",
        "r = Sqrt(half) d = Mul(x, r) e = Erf(d) g = Add(e, one) h = Mul(x, half) y = Mul(h, g)",
        "r = Reciprocal(two) h = Mul(x, r) d = Div(x, div) e = Erf(d) g = Add(one, e) y = Mul(g, h)",
        "h = Mul(x, half) d = Div(x, div) e = Erf(d) p = Mul(h, e) y = Add(h, p)",  # multiplied out
        "d = Div(x, div) e = Erf(d) p = Mul(e, x) a = Add(p, x) y = Div(a, two)",
        "d = Mul(x, mul) e = Erf(d) h = Mul(x, half) p = Mul(x, e) q = Mul(half, p) m = Neg(q) y = Sub(h, m)",
        "d = Div(x, div) e = Erf(d) m = Neg(one) g = Sub(e, m) h = Mul(x, half) y = Mul(h, g)",
    ],
)
def test_the_same_numbers_reached_in_other_ways(pieces: str) -> None:
    assert_fuses(model(pieces, CONSTANTS + ", float two = {2}", opset=20), ["Gelu"])


def test_refuses_other_numbers_reached_in_other_ways() -> None:
    pieces = "r = Sqrt(three) d = Div(x, r) e = Erf(d) g = Add(e, one) h = Mul(x, half) y = Mul(h, g)"
    of = model(pieces, CONSTANTS + ", float three = {3}", opset=20)
    report = assert_refuses(of, "the factor 0.707106781 of x^1, the graph has 0.577350")
    assert report.sites[0].rule == "gelu"


def test_a_constant_beside_an_exact_one_is_held_to_the_exact_number() -> None:
    """In float16 the number after 0.5 is as far from it as two roundings: it says something else all the same."""
    beside = CONSTANTS.replace("half = {0.5}", "half = {0.50048828125}")
    assert_refuses(cast(gelu(beside), ir.DataType.FLOAT16), "GELU wants x * (0.5 + 0.5 * g)")


def test_leaves_alone_what_only_looks_alike() -> None:
    for other in (
        "d = Div(x, div) e = Erf(d) a = Add(e, one) h = Mul(z, half) y = Mul(h, a)",  # two inputs
        "d = Div(x, div) e = Tanh(d) a = Add(e, one) h = Mul(x, half) y = Mul(h, a)",
        "d = Div(div, x) e = Erf(d) a = Add(e, one) h = Mul(x, half) y = Mul(h, a)",  # the quotient turned around
    ):
        inputs = "float[2,8] x, float[2,8] z"
        assert_refuses(model(other, CONSTANTS, inputs=inputs, outputs="float[2,8] y", opset=20), None)


def test_refuses_other_numbers_where_it_is_multiplied_out() -> None:
    pieces = "h = Mul(x, half) t = Mul(x, third) d = Div(x, div) e = Erf(d) p = Mul(t, e) y = Add(h, p)"
    of = model(pieces, CONSTANTS + ", float third = {0.25}", opset=20)
    report = assert_refuses(of, "GELU wants x * (0.5 + 0.5 * g), the graph has x * (0.5 + 0.25 * g)")
    assert len(report.sites) == 1


def test_refuses_a_gate_of_the_other_sign() -> None:
    other = model("d = Div(x, div) e = Erf(d) a = Sub(e, one) h = Mul(x, half) y = Mul(h, a)", CONSTANTS, opset=20)
    assert_refuses(other, "the graph has x * (-0.5 + 0.5 * g)")
