"""LayerNorm with its product expanded, as TensorFlow writes it."""

from __future__ import annotations

import pytest

from tests.fusion.graphs import assert_fuses, assert_refuses, model

ROW = "{1,2,3,4,5,6,7,8}"
CONSTANTS = f"float[8] g = {ROW}, float[8] b = {{0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8}}, float eps = {{1e-3}}"
STATISTICS = """m = ReduceMean<axes = [2]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes = [2]>(q)
                w = Add(v, eps) s = Sqrt(w) r = Reciprocal(s)"""
WITH_BOTH = "i = Mul(r, g) xi = Mul(x, i) mi = Mul(m, i) o = Sub(b, mi) y = Add(xi, o)"


@pytest.mark.parametrize("target", ["portable", "ort"])
def test_scale_and_bias(target: str) -> None:
    fused, _ = assert_fuses(model(f"{STATISTICS} {WITH_BOTH}", CONSTANTS, opset=17), ["LayerNormalization"], target)
    assert fused.graph[0].attributes.get_float("epsilon") == pytest.approx(1e-3)


@pytest.mark.parametrize(
    "rest",
    [
        "i = Mul(g, r) xi = Mul(i, x) mi = Mul(i, m) o = Sub(b, mi) y = Add(o, xi)",  # the other operand order
        "i = Mul(r, g) xi = Mul(x, i) mi = Mul(m, i) o = Sub(xi, mi) y = Add(o, b)",  # the bias last
        "i = Mul(r, g) xi = Mul(x, i) mi = Mul(m, i) y = Sub(xi, mi)",  # no bias
        "xi = Mul(x, r) mi = Mul(m, r) y = Sub(xi, mi)",  # no scale
    ],
)
def test_other_spellings(rest: str) -> None:
    assert_fuses(model(f"{STATISTICS} {rest}", CONSTANTS, opset=17), ["LayerNormalization"])


@pytest.mark.parametrize(
    "rest",
    [
        "i = Mul(r, g) xi = Mul(x, i) mi = Mul(m, r) o = Sub(b, mi) y = Add(xi, o)",  # the mean without the scale
        "i = Mul(r, g) xi = Mul(x, i) mi = Mul(v, i) o = Sub(b, mi) y = Add(xi, o)",  # the variance for the mean
        "i = Mul(r, g) xi = Mul(x, i) mi = Mul(m, i) o = Add(b, mi) y = Add(xi, o)",  # the mean added
        "i = Mul(r, g) xi = Mul(z, i) mi = Mul(m, i) o = Sub(b, mi) y = Add(xi, o)",  # another numerator
    ],
)
def test_other_functions(rest: str) -> None:
    inputs = "float[batch,seq,8] x, float[batch,seq,8] z"
    assert_refuses(model(f"{STATISTICS} {rest}", CONSTANTS, inputs=inputs, opset=17), None)


def test_bias_that_differs_from_token_to_token() -> None:
    inputs = "float[batch,seq,8] x, float[batch,seq,8] b"
    constants = CONSTANTS.replace("float[8] b = {0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8}, ", "")
    assert_refuses(model(f"{STATISTICS} {WITH_BOTH}", constants, inputs=inputs, opset=17), None)
