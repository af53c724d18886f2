"""Feed-forwards whose hidden layer is mixed between the products are reported, with what stands there."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export import fuse
from ffn_export.fusion import inference, unfused
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
        ("wide", "8,32", 256),
        ("over", "5,5", 25),
        ("reduce", "8,2", 16),
        ("expand", "2,16", 32),
        ("kernel_up", "16,8,1,1", 128),
        ("kernel_down", "8,16,1,1", 128),
    ]
)
OVER_TOKENS = "int64[1] tokens = {1}, int64[1] last = {-1}, int64 first = {0}, int64 second = {1}, float scale = {2.0}"
SPLIT = (
    "int64[2] rows = {-1,5}, int64[3] blocks = {-1,16,5}, int64[4] pairs = {0,0,16,2}, int64[4] gates = {0,0,2,16}, "
    "int64[3] same = {0,0,16}"
)
CONV = """h = MatMul(x, up) t = Transpose<perm = [0,2,1]>(h) c = Conv<group = 16, pads = [1,1]>(t, kernel)
          r = Transpose<perm = [0,2,1]>(c) a = Gelu(r)"""
RESPONSE = """h = MatMul(x, up) a = Gelu(h) n = ReduceL2(a, tokens) m = ReduceMean(n, last) q = Div(n, m)
              s = Mul(a, q) g = Mul(s, row) o = Add(g, a)"""


def found(body: str) -> list[Unfused]:
    graph = model(body, f"{WEIGHTS}, {OVER_TOKENS}, {SPLIT}", outputs="float[] y")
    inference.prove_shapes(graph)
    return list(unfused.find(graph))


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
        "h = MatMul(x, up) a = Softmax(h) y = MatMul(a, down)",  # attention to learned tokens
        "h = MatMul(x, up) a = Gelu(h) m = ReduceMax(a, tokens) t = Transpose<perm = [0,2,1]>(m) y = MatMul(t, over)",
        "d = MatMul(x, reduce) e = MatMul(d, expand) a = Gelu(e) y = MatMul(a, down)",  # nothing it is added to
        "h = MatMul(x, up) m = MatMul(h, square) a = Relu(m) y = MatMul(a, down)",
    ],
)
def test_anything_else_is_not_mentioned(body: str) -> None:
    assert found(body) == []


SPATIAL = """h = MatMul(x, wide) a = Gelu(h) u, v = Split<axis = -1, num_outputs = 2>(a)
             n = LayerNormalization(v, row) t = Transpose<perm = [0,2,1]>(n) m = MatMul(t, over)
             r = Transpose<perm = [0,2,1]>(m) g = Mul(u, r)"""
ADAPTED = """h = MatMul(x, up) d = MatMul(x, reduce) e = MatMul(d, expand) f = Mul(e, scale) s = Add(h, f)
             a = Gelu(s)"""


SPATIAL_IN_ROWS = SPATIAL.replace(
    "m = MatMul(t, over)", "w = Reshape(t, rows) k = Gemm(w, over) m = Reshape(k, blocks)"
)


@pytest.mark.parametrize(
    ("body", "activation", "gated", "reason"),
    [
        (
            f"{SPATIAL_IN_ROWS} y = MatMul(g, down)",
            "gelu",
            True,
            "LayerNormalization Gemm compute across tokens or features",
        ),
        (f"{SPATIAL} y = MatMul(g, down)", "gelu", True, "LayerNormalization MatMul compute across tokens or features"),
        (
            "h = MatMul(x, up) s = Softmax(h) a = Mul(h, s) y = MatMul(a, down)",
            None,
            False,
            "Softmax computes across tokens or features",
        ),
        (
            "h = MatMul(x, wide) p = Reshape(h, pairs) a = ReduceMax<keepdims = 0>(p, last) y = MatMul(a, down)",
            None,
            False,
            "ReduceMax computes across tokens or features",
        ),
        (
            """h = MatMul(x, wide) p = Reshape(h, gates) u = Gather<axis = 2>(p, first) v = Gather<axis = 2>(p, second)
               a = Gelu(u) g = Mul(a, v) y = MatMul(g, down)""",
            "gelu",
            True,
            "Gather Gather take parts of its first product by an index",
        ),
        (f"{ADAPTED} y = MatMul(a, down)", "gelu", False, "MatMul adds a product of low rank to its first product"),
        (
            """h = MatMul(x, up) d = MatMul(x, reduce) e = MatMul(d, expand) a = Gelu(h) g = Mul(a, e)
               y = MatMul(g, down)""",
            "gelu",
            True,
            "MatMul computes a gate of low rank: merge its two weights into one",
        ),
    ],
)
def test_another_hidden_layer(body: str, activation: str | None, gated: bool, reason: str) -> None:
    (site,) = found(body)
    assert (site.activation, site.gated) == (activation, gated)
    assert site.reason.startswith(reason)


def test_convolutions_of_kernel_1() -> None:
    body = "h = Conv(x, kernel_up) a = Gelu(h) y = Conv(a, kernel_down)"
    graph = model(body, WEIGHTS, inputs="float[batch,8,height,width] x", outputs="float[] y")
    (site,) = unfused.find(graph)
    assert (site.activation, site.gated) == ("gelu", False)
    assert site.reason == "its products are convolutions of kernel 1, whose features are not the last axis"
    graph.graph[0].attributes["strides"] = ir.AttrInt64s("strides", [2, 2])
    assert list(unfused.find(graph)) == []


def test_products_with_the_weight_on_the_left() -> None:
    body = "h = MatMul(turned_up, x) b = Add(h, column) a = Gelu(b) y = MatMul(turned_down, a)"
    weights = ", ".join(
        f"float[{shape}] {name} = {{{','.join(['0.1'] * size)}}}"
        for name, shape, size in [("turned_up", "16,8", 128), ("turned_down", "8,16", 128), ("column", "16,1", 16)]
    )
    graph = model(body, weights, inputs="float[batch,8,seq] x", outputs="float[batch,8,seq] y")
    (site,) = unfused.find(graph)
    assert (site.activation, site.gated) == ("gelu", False)
    assert site.reason == "its products have the weight on the left, whose features are not the last axis"
    for target in ("ort", "ort-cpu"):
        _, report = fuse(graph, target)
        (reported,) = report.sites
        assert reported.reason is not None
        assert reported.reason.startswith(site.reason)
        assert reported.status == ("refused" if target == "ort" else "kept")


FILM = """g = MatMul(condition, wide) u, v = Split<axis = -1, num_outputs = 2>(g)
          h = MatMul(x, up) m = Mul(u, h) s = Add(m, v) a = Mish(s)"""


@pytest.mark.parametrize(
    ("body", "activation", "read"),
    [
        (f"{FILM} y = MatMul(a, down)", "mish", "'condition'"),
        ("h = MatMul(x, up) a = Gelu(h) m = Mul(a, mask) y = MatMul(m, down)", "gelu", "'mask'"),
        (
            """g = MatMul(condition, up) h = MatMul(x, up) s = Add(h, g) a = Relu(s) m = Mul(a, mask)
               y = MatMul(m, down)""",
            "relu",
            "'mask', 'condition'",
        ),
    ],
)
def test_a_hidden_layer_that_reads_other_values(body: str, activation: str, read: str) -> None:
    inputs = "float[batch,seq,8] x, float[batch,seq,8] condition, float[batch,seq,1] mask"
    (site,) = unfused.find(model(body, WEIGHTS, inputs=inputs, outputs="float[] y"))
    assert (site.activation, site.gated) == (activation, False)
    assert site.reason == f"its hidden layer is also a function of {read}, which no operator takes"


@pytest.mark.parametrize(
    "body",
    [
        "g = MatMul(condition, up) h = MatMul(x, up) a = Mul(g, h) y = MatMul(a, down)",  # a product of two, bilinear
        "h = MatMul(x, up) a = Gelu(h) m = Mul(a, mask) y = MatMul(m, square)",  # as wide as it began
        "h = Mul(x, mask) s = Sigmoid(h) y = MatMul(s, up)",  # no hidden layer
    ],
)
def test_other_values_without_a_feed_forward(body: str) -> None:
    inputs = "float[batch,seq,8] x, float[batch,seq,8] condition, float[batch,seq,1] mask"
    assert list(unfused.find(model(body, WEIGHTS, inputs=inputs, outputs="float[] y"))) == []


def test_report_says_what_stands_between_the_products() -> None:
    _, report = fuse(model(f"{CONV} y = MatMul(a, down)", WEIGHTS, outputs="float[batch,seq,8] y"), "ort")
    (site,) = (each for each in report.sites if each.kind == "feed_forward")
    assert (site.status, site.form) == ("kept", "MatMul Conv Gelu MatMul")
    assert site.reason == "Conv computes across tokens or features between its two products"


@pytest.mark.parametrize(
    "body",
    [
        "h = MatMul(x, up) r = Reshape(h, same) p = Gather<axis = 1>(r, first) a = Gelu(p) y = MatMul(a, down)",
        "h = MatMul(x, up) r = Reshape(h, same) a = ReduceMax<keepdims = 0>(r, tokens) y = MatMul(a, down)",
        "h = MatMul(x, wide) r = Reshape(h, pairs) p = Gather<axis = 1>(r, first) a = Gelu(p) y = MatMul(a, down)",
    ],
)
def test_what_is_taken_out_of_the_tokens_is_no_part_of_the_features(body: str) -> None:
    assert not any("by an index" in site.reason or site.activation is None for site in found(body))
