"""Swish: SiLU and quick GELU, with any constant slope."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import Writer, assert_fuses, assert_refuses, body, cast, model


def write(order: int = 0, alpha: str | None = None, to: str = "y") -> Writer:
    op = Writer(order)
    argument = op("Mul", "x", alpha) if alpha else "x"
    op("Mul", "x", op("Sigmoid", argument), to=to)
    return op


def test_silu_in_both_orders() -> None:
    both = model(body(write(0, to="y"), write(1, to="z")), outputs="float[batch,seq,8] y, float[batch,seq,8] z")
    fused, report = assert_fuses(both, ["Swish", "Swish"])
    assert [node.attributes.get_float("alpha") for node in fused.graph] == [1.0, 1.0]
    assert report.rules == {"swish": 2}


def test_any_slope_in_every_order() -> None:
    writers = [write(order, "alpha", to=f"y{order}") for order in range(4)]
    outputs = ", ".join(f"float[batch,seq,8] y{order}" for order in range(4))
    fused, _ = assert_fuses(model(body(*writers), "float alpha = {1.702}", outputs=outputs), ["Swish"] * 4)
    assert {round(node.attributes.get_float("alpha", 0.0), 6) for node in fused.graph} == {1.702}


@pytest.mark.parametrize("alpha", ["-0.5", "0", "1", "1.702", "30"])
def test_slopes(alpha: str) -> None:
    assert_fuses(model(body(write(0, "alpha")), f"float alpha = {{{alpha}}}"), ["Swish"])


@pytest.mark.parametrize("alpha", ["alpha = Constant<value_float = 1.5>()", "alpha = Constant<value_floats = [1.5]>()"])
def test_slope_as_a_constant_node(alpha: str) -> None:
    fused, _ = assert_fuses(model(alpha + body(write(0, "alpha"))), ["Swish"])
    assert [node.op_type for node in fused.graph] == ["Swish"]  # the constant went too


def test_slope_rounded_to_float16() -> None:
    fused, _ = assert_fuses(
        cast(model(body(write(0, "alpha")), "float alpha = {1.702}"), ir.DataType.FLOAT16), ["Swish"]
    )
    assert fused.graph[0].attributes.get_float("alpha") == 1.7021484375


def test_raises_the_opset() -> None:
    fused, report = assert_fuses(model(body(write()), opset=18), ["Swish"])
    assert fused.opset_imports == {"": 24}
    assert report.opset == {"before": 18, "after": 24}


def test_slope_that_is_not_constant_is_another_function() -> None:
    per_channel = model(body(write(0, "beta")), inputs="float[2,8] x, float beta", outputs="float[2,8] y")
    assert_refuses(per_channel, None)


def test_slope_that_the_caller_may_override() -> None:
    overridable = model(body(write(0, "beta")), inputs="float[2,8] x, float beta = {1.5}", outputs="float[2,8] y")
    assert_refuses(overridable, "alpha is one that the caller may change")


def test_slope_per_channel_is_another_function() -> None:
    assert_refuses(model(body(write(0, "beta")), "float[8] beta = {1,2,3,4,5,6,7,8}"), None)


def test_slope_that_would_widen_a_scalar() -> None:
    widened = model(body(write(0, "alpha")), "float[1] alpha = {1.5}", inputs="float x", outputs="float[1] y")
    assert_refuses(widened, "alpha has an axis, which may give the result one that the input lacks")
    assert_fuses(model(body(write(0, "alpha")), "float[1] alpha = {1.5}"), ["Swish"])


def test_slope_of_more_axes() -> None:
    wider = model(body(write(0, "alpha")), "float[1,1,1,1] alpha = {1.5}", outputs="float[1,b,s,8] y")
    assert_refuses(wider, "alpha has an axis")
    assert_fuses(model(body(write(0, "alpha")), "float[1,1,1] alpha = {1.5}"), ["Swish"])


@pytest.mark.parametrize(
    ("pieces", "alpha"),
    [
        ("n = Neg(x) e = Exp(n) d = Add(e, one) y = Div(x, d)", 1.0),
        ("n = Neg(x) e = Exp(n) d = Add(one, e) r = Reciprocal(d) y = Mul(r, x)", 1.0),
        ("n = Neg(x) e = Exp(n) d = Add(one, e) r = Div(one, d) y = Mul(x, r)", 1.0),
        ("t = Div(x, two) s = Sigmoid(t) y = Mul(x, s)", 0.5),
        ("t = Mul(x, two) u = Mul(t, two) s = Sigmoid(u) y = Mul(x, s)", 4.0),
        ("t = Neg(x) s = Sigmoid(t) y = Mul(x, s)", -1.0),
        ("t = Add(x, x) s = Sigmoid(t) y = Mul(x, s)", 2.0),
    ],
)
def test_in_other_words(pieces: str, alpha: float) -> None:
    fused, _ = assert_fuses(model(pieces, "float one = {1}, float two = {2}"), ["Swish"])
    assert fused.graph[0].attributes.get_float("alpha") == alpha


@pytest.mark.parametrize(
    "pieces",
    [
        "n = Neg(x) e = Exp(n) d = Add(e, two) y = Div(x, d)",
        "n = Neg(x) e = Exp(n) m = Mul(e, two) d = Add(m, one) y = Div(x, d)",
        "n = Neg(x) e = Exp(n) d = Add(e, one) y = Mul(x, d)",
        "e = Exp(x) d = Add(e, one) y = Div(x, d)",
        "s = Sigmoid(x) t = Add(s, one) y = Mul(x, t)",
        "s = Sigmoid(x) t = Mul(s, two) y = Mul(x, t)",
        "t = Add(x, one) s = Sigmoid(t) y = Mul(x, s)",
        "t = Mul(x, x) s = Sigmoid(t) y = Mul(x, s)",
        "s = Sigmoid(x) y = Div(x, s)",
        "s = Sigmoid(x) y = Div(s, x)",
    ],
)
def test_what_only_looks_alike(pieces: str) -> None:
    assert_refuses(
        model(pieces, "float one = {1}, float two = {2}", inputs="float[2,8] x", outputs="float[2,8] y"), None
    )


def test_a_sign_from_outside_of_a_body_is_not_taken_in() -> None:
    branches = """z = If (c) <then_branch = t () => (float[2,8] a) { e = Exp(n) d = Add(e, one) a = Div(x, d) },
                                else_branch = e () => (float[2,8] b) { b = Neg(x) }>"""
    of = model("n = Neg(x)" + branches, "float one = {1}", inputs="float[2,8] x, bool c", outputs="float[2,8] z")
    assert_refuses(of, None)


def test_gate_on_another_value_is_no_activation() -> None:
    gate = model("s = Sigmoid(z) y = Mul(x, s)", inputs="float[2,8] x, float[2,8] z", outputs="float[2,8] y")
    assert_refuses(gate, None)


def test_a_string_as_slope_is_no_slope() -> None:
    broken = model(body(write(0, "alpha")), 'string alpha = {"q"}')
    fused, report = fuse(broken, "portable")
    assert len(fused.graph) == 3
    assert report.sites == ()
