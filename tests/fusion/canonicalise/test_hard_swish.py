"""HardSwish in pieces."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from tests.fusion.graphs import assert_fuses, assert_refuses, cast, model

CONSTANTS = """float three = {3}, float six = {6}, float zero = {0}, float sixth = {0.16666666666666666},
    float one = {1}, float seven = {7}, float half = {0.5}, float[1] row = {3}, float[1,1,1] cube = {3}"""
HARD = "HardSigmoid<alpha = 0.16666667163372040, beta = 0.5>"


@pytest.mark.parametrize(
    "pieces",
    [
        f"h = {HARD}(x) y = Mul(x, h)",
        f"h = {HARD}(x) y = Mul(h, x)",
        "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
        "a = Add(three, x) c = Clip(a, zero, six) d = Div(c, six) y = Mul(d, x)",
        "a = Add(x, three) c = Clip(a, zero, six) d = Mul(c, sixth) y = Mul(x, d)",
        "a = Add(x, three) c = Clip(a, zero, six) d = Div(x, six) y = Mul(d, c)",
        "a = Add(x, cube) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
    ],
)
def test_in_other_words(pieces: str) -> None:
    fused, report = assert_fuses(model(pieces, CONSTANTS, opset=18), ["HardSwish"])
    assert report.rules == {"hard-swish": 1}
    assert fused.opset_imports == {"": 18}


def test_float16() -> None:
    pieces = "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)"
    assert_fuses(cast(model(pieces, CONSTANTS), ir.DataType.FLOAT16), ["HardSwish"])


@pytest.mark.parametrize(
    "pieces",
    [
        "h = HardSigmoid(x) y = Mul(x, h)",  # the standard's default slope is 0.2
        "h = HardSigmoid<alpha = 0.16666667>(z) y = Mul(x, h)",
        "h = HardSigmoid<alpha = 0.16666667, beta = 0.4>(x) y = Mul(x, h)",
        "h = HardSigmoid<alpha = 0.1666>(x) y = Mul(x, h)",
        "m = Mul(x, three) h = HardSigmoid<alpha = 0.16666667>(m) y = Mul(x, h)",
        "h = HardSigmoid<alpha = 0.16666667>(x) m = Mul(h, three) y = Mul(x, m)",
        "h = HardSigmoid<alpha = 0.16666667>(x) m = Add(h, one) y = Mul(x, m)",
        "a = Add(x, three) c = Clip(a, zero, six) y = Mul(x, c)",
        "a = Add(x, three) c = Clip(a, zero, seven) m = Mul(x, c) y = Div(m, six)",
        "a = Add(x, three) c = Clip(a, half, six) m = Mul(x, c) y = Div(m, six)",
        "a = Add(x, three) c = Clip(a, , six) m = Mul(x, c) y = Div(m, six)",
        "a = Add(x, three) c = Clip(a, zero) m = Mul(x, c) y = Div(m, six)",
        "a = Add(x, three) c = Clip(a) m = Mul(x, c) y = Div(m, six)",
        "a = Add(x, half) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
        "a = Sub(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
        "a = Add(z, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
        "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, seven)",
        "a = Add(x, three) c = Clip(a, zero, six) m = Div(x, c) y = Div(m, six)",
    ],
)
def test_what_only_looks_alike(pieces: str) -> None:
    of = model(pieces, CONSTANTS, inputs="float[2,8] x, float[2,8] z", outputs="float[2,8] y")
    assert_refuses(of, None, runs="Div(x, c)" not in pieces)


def test_a_constant_that_would_widen_a_scalar() -> None:
    pieces = "a = Add(x, row) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)"
    assert_refuses(model(pieces, CONSTANTS, inputs="float x", outputs="float[1] y"), None)


def test_bounds_that_are_inputs() -> None:
    pieces = "a = Add(x, three) c = Clip(a, low, six) m = Mul(x, c) y = Div(m, six)"
    of = model(pieces, CONSTANTS, inputs="float[2,8] x, float low = {0}", outputs="float[2,8] y")
    assert_refuses(of, None)
