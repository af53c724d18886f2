"""Products with constant weights as one node: what it takes in, and what is left outside."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion.functions.contract import DOMAIN
from tests.fusion.functions.nodes import assert_left, assert_outlines, attributes, graph, names, nodes
from tests.fusion.graphs import cast, operators

WEIGHTS = {"w": (8, 8), "v": (8, 8), "u": (8, 8), "b": (8,), "c": (8,), "s": (8,), "t": (8,)}
LAYER = "m = MatMul(x, w) a = Add(m, b)"
NORM = "LayerNormalization<axis = -1, epsilon = 1e-5>"
RMS = "RMSNormalization<axis = -1, epsilon = 1e-5>"


def test_a_product() -> None:
    (node,) = nodes(assert_outlines(graph("y = MatMul(x, w)", WEIGHTS), ["Linear"]))
    assert (node.domain, names(node), attributes(node)) == (DOMAIN, ["x", "w"], {})


@pytest.mark.parametrize("bias", ["Add(m, b)", "Add(b, m)"])
def test_a_bias(bias: str) -> None:
    (node,) = nodes(assert_outlines(graph(f"m = MatMul(x, w) y = {bias}", WEIGHTS), ["Linear"]))
    assert names(node) == ["x", "w", "b"]


def test_a_bias_with_leading_axes_becomes_a_row() -> None:
    of = graph("m = MatMul(x, w) y = Add(m, r)", {**WEIGHTS, "r": (1, 1, 8)})
    (node,) = nodes(assert_outlines(of, ["Linear"]))
    bias = node.inputs[2]
    assert bias is not None
    assert bias.shape == ir.Shape([8])


@pytest.mark.parametrize("turned", [0, 1])
def test_a_gemm(turned: int) -> None:
    of = graph(f"y = Gemm<transB = {turned}>(x, w, b)", WEIGHTS, inputs="float[rows,8] x", outputs="float[rows,8] y")
    (node,) = nodes(assert_outlines(of, ["Linear"], exact=False))
    assert names(node) == ["x", "w", "b"]
    assert attributes(node) == ({"transposed": 1} if turned else {})


def test_a_weight_that_a_node_turns() -> None:
    of = graph("r = Transpose<perm = [1, 0]>(w) y = MatMul(x, r)", WEIGHTS)
    (node,) = nodes(assert_outlines(of, ["Linear"]))
    assert (names(node), attributes(node)) == (["x", "w"], {"transposed": 1})


@pytest.mark.parametrize("total", ["Add(a, z)", "Add(z, a)"])
@pytest.mark.parametrize("norm", ["", "post_layer", "post_rms"])
def test_residual_and_norm_behind(norm: str, total: str) -> None:
    ends = {"": "y = Identity(t1)", "post_layer": f"y = {NORM}(t1, s, t)", "post_rms": f"y = {RMS}(t1, s)"}[norm]
    of = graph(f"{LAYER} t1 = {total} {ends}", WEIGHTS, inputs="float[batch,seq,8] x, float[batch,seq,8] z")
    (node,) = nodes(assert_outlines(of, ["Linear"]))
    rows = {"": [], "post_layer": ["s", "t"], "post_rms": ["s"]}[norm]
    assert names(node) == ["x", "w", "b", "z", *rows]
    assert attributes(node).get("norm", "") == norm


@pytest.mark.parametrize(("norm", "rows"), [(NORM, "s, t"), (RMS, "s")])
def test_the_norm_before(norm: str, rows: str) -> None:
    of = graph(f"n = {norm}(x, {rows}) m = MatMul(n, w) y = Add(m, x)", WEIGHTS)
    (node,) = nodes(assert_outlines(of, ["Linear"]))
    assert names(node) == ["x", "w", None, "x", *rows.split(", ")]
    assert attributes(node)["norm"] == ("pre_layer" if norm == NORM else "pre_rms")


def test_at_most_one_norm() -> None:
    of = graph(f"n = {NORM}(x, s, t) m = MatMul(n, w) r = Add(m, x) y = {NORM}(r, s, t)", WEIGHTS)
    one = assert_outlines(of, ["Linear"])
    assert operators(one) == ["Linear", "LayerNormalization"]
    assert attributes(nodes(one)[0])["norm"] == "pre_layer"


def test_products_of_one_input_are_one_node_with_several_results() -> None:
    body = "q0 = MatMul(x, w) q = Add(q0, b) k = MatMul(x, v) v0 = MatMul(x, u) v1 = Add(v0, c)"
    of = graph(f"{body} y = Mul(q, k) z = Neg(v1)", WEIGHTS, outputs="float[batch,seq,8] y, float[batch,seq,8] z")
    (node,) = nodes(assert_outlines(of, ["Linear"]))
    assert attributes(node) == {"splits": (8, 8, 8)}
    weight, bias = node.inputs[1:]
    assert weight is not None
    assert bias is not None
    assert (weight.shape, bias.shape) == (ir.Shape([8, 24]), ir.Shape([24]))
    assert bias.const_value is not None
    assert not bias.const_value.numpy()[8:16].any()


def test_products_one_behind_the_other() -> None:
    of = graph(f"{LAYER} n = MatMul(a, v) o = Add(n, c) p = MatMul(o, u) y = Add(p, x)", WEIGHTS)
    first, second, third = nodes(assert_outlines(of, ["Linear", "Linear", "Linear_2"]))
    assert [each.inputs[0] for each in (second, third)] == [first.outputs[0], second.outputs[0]]
    assert names(third) == ["o", "u", None, "x"]


def test_a_product_behind_the_norm_of_another() -> None:
    of = graph(f"{LAYER} r = Add(a, x) n = {NORM}(r, s, t) y = MatMul(n, v)", WEIGHTS)
    first, second = nodes(assert_outlines(of, ["Linear", "Linear_2"]))
    assert attributes(first)["norm"] == "post_layer"
    assert second.inputs[0] is first.outputs[0]


def test_the_sum_of_two_products_of_one_input() -> None:
    assert_outlines(graph("m = MatMul(x, w) n = MatMul(x, v) y = Add(m, n)", WEIGHTS), ["Linear_2", "Linear"])


def test_they_share_the_norm_before_them() -> None:
    of = graph(f"n = {NORM}(x, s, t) p = MatMul(n, w) q = MatMul(n, v) y = Mul(p, q)", WEIGHTS)
    (node,) = nodes(assert_outlines(of, ["Linear"]))
    assert attributes(node)["norm"] == "pre_layer"
    assert attributes(node)["splits"] == (8, 8)


def test_layers_that_share_weights_share_what_is_made_of_them() -> None:
    layer = "{0}p = MatMul({1}, w) {0}q = MatMul({1}, v) {0} = Mul({0}p, {0}q)"
    of = graph(f"{layer.format('a', 'x')} {layer.format('y', 'a')}", WEIGHTS)
    first, second = nodes(assert_outlines(of, ["Linear", "Linear"]))
    assert first.inputs[1] is second.inputs[1]


def test_a_split_goes_into_the_node() -> None:
    of = graph(
        "m = MatMul(x, w) p, q = Split<axis = -1>(m, sizes) y = Concat<axis = -1>(q, p)",
        WEIGHTS,
        constants="int64[2] sizes = {3, 5}",
    )
    (node,) = nodes(assert_outlines(of, ["Linear"]))
    assert attributes(node) == {"splits": (3, 5)}


def test_structures_have_names_of_their_own() -> None:
    of = graph("m = MatMul(x, w) a = Add(m, b) r = Sin(a) n = MatMul(r, v) g = Sin(n) y = MatMul(g, u)", WEIGHTS)
    one = assert_outlines(of, ["Linear_2", "Linear", "Linear"])
    assert [key[1] for key in one.functions] == ["Linear", "Linear_2"]


TWO = "float[batch,seq,8] y, float[batch,seq,8] z"


@pytest.mark.parametrize(
    ("body", "outputs", "kept"),
    [
        (f"{LAYER} y = Add(a, x) z = Neg(a)", TWO, ["Linear", "Add", "Neg"]),
        (f"{LAYER} y = Add(a, x)", "float[batch,seq,8] y, float[batch,seq,8] a", ["Linear", "Add"]),
        (f"{LAYER} r = Add(a, x) y = {NORM}(r, s, t) z = Neg(r)", TWO, ["Linear", "LayerNormalization", "Neg"]),
        (f"n = {NORM}(x, s, t) y = MatMul(n, w) z = Neg(n)", TWO, ["LayerNormalization", "Linear", "Neg"]),
        (f"{LAYER} y = Add(a, a)", "float[batch,seq,8] y", ["Linear", "Add"]),
        (
            f"{LAYER} r = LayerNormalization<axis = 1>(a, e) y = Add(r, x)",
            "float[batch,seq,8] y",
            ["Linear", "LayerNormalization", "Add"],
        ),
    ],
    ids=[
        "the product is read",
        "the product is an output",
        "the sum is read",
        "the norm is read",
        "twice itself",
        "a norm of two axes",
    ],
)
def test_what_is_read_elsewhere_stays_outside(body: str, outputs: str, kept: list[str]) -> None:
    inputs = "float[batch,3,8] x" if "(a, e)" in body else "float[batch,seq,8] x"
    of = graph(body, {**WEIGHTS, "e": (3, 8)}, inputs=inputs, outputs=outputs)
    assert operators(assert_outlines(of, ["Linear"])) == kept


def test_a_residual_that_is_broadcast_stays_outside() -> None:
    of = graph(f"{LAYER} y = Add(a, z)", WEIGHTS, inputs="float[batch,seq,8] x, float[one,seq,8] z")
    draw = np.random.default_rng(0)
    x, z = (draw.standard_normal((rows, 3, 8)).astype(np.float32) for rows in (2, 1))
    assert operators(assert_outlines(of, ["Linear"], {"x": x, "z": z})) == ["Linear", "Add"]


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("y = MatMul(x, f)", "float[batch,seq,8] x, float[8,8] f"),
        ("g = Sin(w) y = MatMul(x, g)", "float[batch,seq,8] x"),
        ("y = MatMul(x, z)", "float[batch,8,8] x, float[batch,8,8] z"),
        ("y = MatMul(w, x)", "float[batch,8,8] x"),
        ("y = Gemm<alpha = 0.5>(x, w, b)", "float[rows,8] x"),
        ("y = Gemm<transA = 1>(x, w, b)", "float[8,8] x"),
        ("y = MatMul(x, narrow)", "float[batch,seq,1] x"),
    ],
    ids=["fed", "computed", "two inputs", "a constant first", "scaled", "turned input", "an outer product"],
)
def test_left(body: str, inputs: str) -> None:
    outputs = "float[rows,8] y" if "Gemm" in body else "float[batch,seq,8] y"
    of = graph(body, {**WEIGHTS, "narrow": (1, 8)}, inputs=inputs, outputs=outputs)
    assert_left(of)


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT16, ir.DataType.DOUBLE])
def test_other_dtypes_are_left(dtype: ir.DataType) -> None:
    assert_left(cast(graph(f"{LAYER} y = Add(a, x)", WEIGHTS), dtype))


def test_inside_a_subgraph() -> None:
    body = """y = If (condition) <
        then_branch = yes () => (float[batch,seq,8] t1) { m = MatMul(x, w) t1 = Add(m, b) },
        else_branch = no () => (float[batch,seq,8] e) { e = Neg(x) }>"""
    of = graph(body, WEIGHTS, inputs="float[batch,seq,8] x, bool condition")
    assert_outlines(of, ["Linear"])
