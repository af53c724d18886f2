"""Mish in pieces."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from tests.fusion.graphs import assert_fuses, assert_refuses, cast, model

PIECES = "p = Softplus(x) t = Tanh(p) "
ONE = "float one = {1}, float two = {2}, float[1] row = {1}, float[8] eight = {1,1,1,1,1,1,1,1}"


@pytest.mark.parametrize("product", ["y = Mul(x, t)", "y = Mul(t, x)", "u = Mul(t, one) y = Mul(x, u)"])
@pytest.mark.parametrize("opset", [18, 22])
def test_in_other_words(product: str, opset: int) -> None:
    fused, report = assert_fuses(model(PIECES + product, ONE, opset=opset), ["Mish"])
    assert report.rules == {"mish": 1}
    assert fused.opset_imports == {"": opset}


def test_float16() -> None:
    assert_fuses(cast(model(PIECES + "y = Mul(x, t)"), ir.DataType.FLOAT16), ["Mish"])


@pytest.mark.parametrize(
    "body",
    [
        "p = Softplus(z) t = Tanh(p) y = Mul(x, t)",  # of another value
        "m = Mul(x, two) p = Softplus(m) t = Tanh(p) y = Mul(x, t)",
        "p = Softplus(x) t = Tanh(p) u = Mul(t, two) y = Mul(x, u)",
        "p = Softplus(x) t = Tanh(p) u = Add(t, one) y = Mul(x, u)",
        "t = Tanh(x) p = Softplus(t) y = Mul(x, p)",
        "t = Tanh(x) y = Mul(x, t)",
        "p = Softplus(x) t = Tanh(p) y = Div(x, t)",
        "p = Softplus(x) t = Tanh(p) u = Mul(t, eight) y = Mul(x, u)",
    ],
)
def test_what_only_looks_alike(body: str) -> None:
    assert_refuses(model(body, ONE, inputs="float[2,8] x, float[2,8] z", outputs="float[2,8] y"), None)


def test_a_constant_that_would_widen_a_scalar() -> None:
    of = model(PIECES + "u = Mul(t, row) y = Mul(x, u)", ONE, inputs="float x", outputs="float[1] y")
    assert_refuses(of, None)


def test_a_softplus_outside_of_the_body() -> None:
    branches = """y = If (c) <then_branch = a () => (float[2,8] m) { t = Tanh(p) m = Mul(x, t) },
                                else_branch = e () => (float[2,8] q) { q = Neg(x) }>"""
    of = model("p = Softplus(x) " + branches, inputs="float[2,8] x, bool c", outputs="float[2,8] y")
    assert_refuses(of, None)


def test_a_softplus_that_is_read_elsewhere() -> None:
    assert_refuses(model(PIECES + "m = Mul(x, t) y = Add(m, p)"), "intermediate 'p' is also read by Add")
