"""Linear layers: a product with a constant matrix, and the row that is added to it."""

from __future__ import annotations

import pytest

from ffn_export.fusion import linear
from ffn_export.fusion.inference import prove_shapes
from ffn_export.fusion.linear import Linear
from tests.fusion.graphs import model

CONSTANTS = """float[8,2] w = {1,-2,3,-4,5,-6,7,-8,8,7,-6,5,-4,3,-2,1}, float[2] b = {0.5,-0.5}, float[1,1,2] c = {1,2},
    float[4,1] t = {1,2,3,4}, int64[2] rows = {-1,2}, float one = {1},
    float[2,8] wt = {1,-2,3,-4,5,-6,7,-8,8,7,-6,5,-4,3,-2,1}, float[1,1,1,2] wide = {1,2}"""


def read(body: str, x: str = "float[3,4,8] x") -> Linear | None:
    of = model(body, CONSTANTS, inputs=f"{x}, float[8,2] v", outputs="float[] y")
    prove_shapes(of)
    return linear.read(of.graph.outputs[0], of.graph)


@pytest.mark.parametrize(
    ("body", "bias", "nodes"),
    [
        ("y = MatMul(x, w)", None, ["MatMul"]),
        ("m = MatMul(x, w) y = Add(m, b)", "b", ["Add", "MatMul"]),
        ("m = MatMul(x, w) y = Add(b, m)", "b", ["Add", "MatMul"]),
        ("m = MatMul(x, w) y = Add(m, c)", "c", ["Add", "MatMul"]),
        ("m = MatMul(x, w) y = Add(one, m)", "one", ["Add", "MatMul"]),
        ("m = MatMul(x, w) r = Reshape(m, rows) y = Add(r, b)", "b", ["Add", "Reshape", "MatMul"]),
    ],
)
def test_linear(body: str, bias: str | None, nodes: list[str]) -> None:
    layer = read(body)
    assert layer is not None
    assert (layer.x.name, layer.sizes, [node.op_type for node in layer.nodes]) == ("x", (8, 2), nodes)
    assert (layer.bias.name if layer.bias is not None else None) == bias


@pytest.mark.parametrize(
    "body",
    [
        "y = MatMul(x, v)",  # no constant
        "m = MatMul(x, w) y = Add(m, t)",  # another number for each token
        "m = MatMul(x, w) y = Add(m, wide)",
        "m = MatMul(x, w) y = Add(m, m)",
        "m = MatMul(x, w) y = Sub(m, b)",
        "y = Add(x, one)",
        "m = MatMul(x, w) r = Reshape(m, rows) n = Neg(r) y = Add(r, b)",  # the reshape is read elsewhere
    ],
)
def test_what_is_none(body: str) -> None:
    assert read(body) is None


@pytest.mark.parametrize(
    ("gemm", "attributes"),
    [
        ("Gemm(x, w)", {}),
        ("Gemm<alpha = 0.5, beta = 3.0>(x, w)", {"alpha": 0.5}),
        ("Gemm<transB = 1>(x, wt)", {"transB": 1}),
    ],
)
def test_a_gemm_without_an_addend(gemm: str, attributes: dict[str, float]) -> None:
    layer = read(f"m = {gemm} y = Add(m, b)", "float[3,8] x")
    assert layer is not None
    assert (layer.sizes, layer.attributes, [node.op_type for node in layer.nodes]) == (
        (8, 2),
        attributes,
        ["Add", "Gemm"],
    )


@pytest.mark.parametrize("gemm", ["Gemm(x, w, b)", "Gemm<transA = 1>(x, w)", "Gemm(x, v)"])
def test_a_gemm_that_is_none(gemm: str) -> None:
    assert read(f"m = {gemm} y = Add(m, b)", "float[8,8] x") is None


def test_nodes_of_other_graphs_are_not_read() -> None:
    of = model("y = MatMul(x, w)", CONSTANTS, outputs="float[] y")
    assert linear.read(of.graph.outputs[0], object()) is None


def test_why_no_rows() -> None:
    layer = read("y = MatMul(x, w)")
    assert layer is not None
    assert linear.why_no_rows(layer) is None
    assert layer.product.graph is not None
    layer.product.graph.opset_imports[""] = 13
    assert "needs opset 14" in str(linear.why_no_rows(layer))
    matrix, vector = read("y = MatMul(x, w)", "float[3,8] x"), read("y = MatMul(x, w)", "float[8] x")
    assert matrix is not None
    assert vector is not None
    assert linear.why_no_rows(matrix) is None
    assert "rank" in str(linear.why_no_rows(vector))


def test_a_product_outside_of_the_body_is_not_read() -> None:
    branches = """y = If (k) <then_branch = p () => (float[3,2] s) { s = Add(m, b) },
                                else_branch = e () => (float[3,2] q) { q = Neg(m) }>"""
    of = model("m = MatMul(x, w) " + branches, CONSTANTS, inputs="float[3,8] x, bool k", outputs="float[3,2] y")
    add = next(node for node in of.graph.all_nodes() if node.op_type == "Add")
    assert linear.read(add.outputs[0], add.graph) is None
