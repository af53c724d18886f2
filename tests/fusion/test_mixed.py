"""Feed-forwards whose hidden layer is mixed between the products are reported, with what stands there."""

from __future__ import annotations

import pytest

from ffn_export import fuse
from ffn_export.fusion import unfused
from ffn_export.fusion.sites import Unfused
from tests.fusion.graphs import model

WEIGHTS = ", ".join(
    f"float[{shape}] {name} = {{{','.join(['0.1'] * size)}}}"
    for name, shape, size in [
        ("up", "8,16", 128),
        ("down", "16,8", 128),
        ("square", "16,16", 256),
        ("row", "16", 16),
        ("kernel", "16,1,3", 48),
        ("narrow", "16,4", 64),
    ]
)
OVER_TOKENS = "int64[1] tokens = {1}, int64[1] last = {-1}"
CONV = """h = MatMul(x, up) t = Transpose<perm = [0,2,1]>(h) c = Conv<group = 16, pads = [1,1]>(t, kernel)
          r = Transpose<perm = [0,2,1]>(c) a = Gelu(r)"""
RESPONSE = """h = MatMul(x, up) a = Gelu(h) n = ReduceL2(a, tokens) m = ReduceMean(n, last) q = Div(n, m)
              s = Mul(a, q) g = Mul(s, row) o = Add(g, a)"""


def found(body: str) -> list[Unfused]:
    return list(unfused.find(model(body, f"{WEIGHTS}, {OVER_TOKENS}", outputs="float[] y")))


@pytest.mark.parametrize(
    ("body", "activation", "reason"),
    [
        (f"{CONV} y = MatMul(a, down)", "gelu", "Conv computes across"),
        (f"{RESPONSE} y = MatMul(o, down)", "gelu", "ReduceL2 ReduceMean compute across"),
        (
            "h = MatMul(x, up) a = Relu(h) n = LayerNormalization(a, row) y = MatMul(n, down)",
            "relu",
            "LayerNormalization computes across",
        ),
    ],
)
def test_mixed(body: str, activation: str, reason: str) -> None:
    (site,) = found(body)
    assert (site.activation, site.gated) == (activation, False)
    assert site.reason.startswith(reason)
    assert site.nodes[-1].outputs[0].name == "y"


@pytest.mark.parametrize(
    "body",
    [
        "h = MatMul(x, up) a = Gelu(h) y = MatMul(a, down)",  # a feed-forward
        "h = MatMul(x, up) n = LayerNormalization(h, row) y = MatMul(n, down)",  # no activation
        "h = MatMul(x, up) s = Softmax(h) a = Relu(s) y = MatMul(a, down)",  # as attention does
        f"{CONV} y = MatMul(a, narrow)",  # of another width than it began with
        "h = MatMul(x, up) m = MatMul(h, square) a = Relu(m) y = MatMul(a, down)",
    ],
)
def test_anything_else_is_not_mentioned(body: str) -> None:
    assert found(body) == []


def test_report_says_what_stands_between_the_products() -> None:
    _, report = fuse(model(f"{CONV} y = MatMul(a, down)", WEIGHTS, outputs="float[batch,seq,8] y"), "ort")
    (site,) = (each for each in report.sites if each.kind == "feed_forward")
    assert (site.status, site.form) == ("kept", "MatMul Conv Gelu MatMul")
    assert site.reason == "Conv computes across tokens or features between its two products"
