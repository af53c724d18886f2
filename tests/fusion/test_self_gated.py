"""A product is read as ``x`` times a gate of ``x``, in each way that it is one."""

from __future__ import annotations

import pytest

from ffn_export.fusion import self_gated
from ffn_export.fusion.self_gated import Gated
from tests.fusion.graphs import model

CONSTANTS = "float two = {2}, float one = {1}, float half = {0.5}, float[1,1,1] wide = {2}"


def read(body: str) -> list[Gated]:
    of = model(body, CONSTANTS, inputs="float[2,8] x, float[2,8] z, float k = {3}", outputs="float[] y").graph
    return list(self_gated.read(of[-1]))


@pytest.mark.parametrize(
    ("body", "kind", "argument", "offset", "slope"),
    [
        ("s = Sigmoid(x) y = Mul(x, s)", "sigmoid", {1: 1}, 0, 1),
        ("t = Mul(x, two) s = Sigmoid(t) m = Mul(x, s) y = Mul(m, half)", "sigmoid", {1: 2}, 0, 0.5),
        ("e = Erf(x) a = Add(e, one) m = Mul(a, x) y = Div(m, two)", "erf", {1: 1}, 0.5, 0.5),
        ("e = Erf(x) m = Mul(e, half) a = Add(m, half) y = Mul(a, x)", "erf", {1: 1}, 0.5, 0.5),
        ("e = Tanh(x) a = Sub(one, e) y = Mul(x, a)", "tanh", {1: 1}, 1, -1),
        ("p = Softplus(x) t = Tanh(p) y = Mul(x, t)", "tanh of softplus", {1: 1}, 0, 1),
        ("h = HardSigmoid(x) y = Mul(x, h)", "hard sigmoid", {1: 1}, 0, 1),
        ("a = Add(x, two) c = Clip(a) y = Mul(x, c)", "clip", {0: 2, 1: 1}, 0, 1),
        ("n = Neg(x) e = Exp(n) a = Add(one, e) y = Div(x, a)", "sigmoid", {1: 1}, 0, 1),
        ("e = Erf(x) h = Mul(x, half) p = Mul(h, e) y = Add(h, p)", "erf", {1: 1}, 0.5, 0.5),
        ("e = Erf(x) p = Mul(e, x) a = Add(p, x) y = Mul(half, a)", "erf", {1: 1}, 0.5, 0.5),
        ("e = Erf(x) h = Div(x, two) p = Mul(x, e) q = Div(p, two) y = Sub(h, q)", "erf", {1: 1}, 0.5, -0.5),
        ("e = Tanh(x) p = Mul(x, e) y = Sub(p, x)", "tanh", {1: 1}, -1, 1),
    ],
)
def test_gated(body: str, kind: str, argument: dict[int, float], offset: float, slope: float) -> None:
    (found,) = read(body)
    assert (found.x.name, found.kind, found.argument.equals(argument)) == ("x", kind, True)
    assert (found.offset.number, found.slope.number) == (offset, slope)
    assert found.is_known
    assert not found.widens()


@pytest.mark.parametrize(
    "body",
    [
        "s = Sigmoid(z) y = Mul(x, s)",
        "s = Sigmoid(x) y = Div(x, s)",
        "s = Sigmoid(x) t = Tanh(s) y = Mul(x, t)",
        "y = Mul(x, z)",
        "e = Exp(x) a = Add(one, e) y = Div(x, a)",
        "n = Neg(x) e = Exp(n) a = Add(two, e) y = Div(x, a)",
        "n = Neg(x) e = Exp(n) a = Add(one, e) y = Mul(x, a)",
        "s = Sigmoid(x) m = Mul(x, s) y = Mul(m, z)",
        "e = Erf(x) p = Mul(x, e) y = Add(p, z)",
        "e = Erf(z) p = Mul(x, e) y = Add(p, x)",
        "y = Add(x, x)",
        "y = Add(x, two)",
        "e = Erf(x) p = Mul(x, e) y = Add(p, two)",
        "e = Erf(x) y = Add(x, e)",
    ],
)
def test_what_is_none(body: str) -> None:
    assert read(body) == []


def test_an_input_that_is_a_product_itself() -> None:
    (found,) = read("m = Mul(x, z) s = Sigmoid(m) y = Mul(m, s)")
    assert found.x.name == "m"


def test_constants_that_are_not_known_or_widen() -> None:
    (found,) = read("t = Mul(x, k) s = Sigmoid(t) y = Mul(x, s)")
    assert not found.is_known
    (found,) = read("t = Mul(x, wide) s = Sigmoid(t) y = Mul(x, s)")
    assert found.widens()
