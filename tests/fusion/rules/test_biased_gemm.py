"""Product and bias in one Gemm, before an activation that has no kernel with a bias."""

from __future__ import annotations

import numpy as np
import pytest

from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_fuses, assert_same_function, model, operators

W = ", ".join(
    f"float[{shape}] {name} = {{{','.join(str(round(0.1 * (i % 7) - 0.3, 1)) for i in range(size))}}}"
    for name, shape, size in [
        ("w", "8,4", 32),
        ("v", "8,4", 32),
        ("o", "4,8", 32),
        ("p", "8,8", 64),
        ("b", "4", 4),
        ("c", "4", 4),
        ("b2", "1,1,4", 4),
        ("d", "8", 8),
        ("one", "1", 1),
        ("t", "3,4", 12),
    ]
)
GEMM = ["Reshape", "Gemm", "Shape", "Concat", "Reshape"]
ACTIVATIONS = {
    "Swish(s)": "QuickGelu",
    "Swish<alpha = 1.702>(s)": "QuickGelu",
    "Mish(s)": "Mish",
    "HardSwish(s)": "HardSwish",
}


def ffn(activation: str = "Swish(s)", add: str = "Add(m, b)") -> str:
    return f"m = MatMul(x, w) s = {add} a = {activation} y = MatMul(a, o)"


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("add", ["Add(m, b)", "Add(b, m)", "Add(m, b2)", "Add(m, one)"])
def test_rank_3_goes_through_rows(activation: str, add: str) -> None:
    of = model(ffn(activation, add), W)
    fused, report = assert_fuses(of, [*GEMM, ACTIVATIONS[activation], "MatMul"], "ort")
    assert report.rules["biased-gemm"] == 1
    assert [site.status for site in report.sites] == ["rewritten"]
    for shape in [(0, 3, 8), (3, 0, 8), (1, 1, 8)]:
        assert_same_function(of, fused, {"x": np.ones(shape, np.float32)})


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("gemm", ["Gemm(x, w)", "Gemm<alpha = 0.5>(x, w)"])
def test_a_gemm_without_a_bias_takes_it(gemm: str, activation: str) -> None:
    body = ffn(activation).replace("MatMul(x, w)", gemm)
    of = model(body, W, inputs="float[n,8] x", outputs="float[n,8] y")
    assert_fuses(of, ["Gemm", ACTIVATIONS[activation], "MatMul"], "ort")


def test_a_matrix_needs_no_reshape() -> None:
    of = model(ffn(), W, inputs="float[n,8] x", outputs="float[n,8] y")
    assert_fuses(of, ["Gemm", "QuickGelu", "MatMul"], "ort")


@pytest.mark.parametrize("product", ["Mul(a, u)", "Mul(u, a)"])
@pytest.mark.parametrize(("activation", "written"), [("Swish(s)", "QuickGelu"), ("Gelu(s)", "BiasGelu")])
def test_the_second_projection_of_a_gated_one(product: str, activation: str, written: str) -> None:
    gated = (
        f"m = MatMul(x, w) s = Add(m, b) a = {activation} k = MatMul(x, v) u = Add(k, c) g = {product} y = MatMul(g, o)"
    )
    fused, report = fuse(model(gated, W, inputs="float[n,8] x", outputs="float[n,8] y"), "ort")
    first = ["MatMul", "BiasGelu"] if written == "BiasGelu" else ["Gemm", "QuickGelu"]
    assert sorted(operators(fused)) == sorted([*first, "Gemm", "Mul", "MatMul"])
    assert [site.status for site in report.sites] == ["rewritten"]
    assert_same_function(model(gated, W, inputs="float[n,8] x", outputs="float[n,8] y"), fused)


def test_a_gated_one_without_an_activation() -> None:
    gated = "m = MatMul(x, w) s = Add(m, b) k = MatMul(x, v) u = Add(k, c) g = Mul(s, u) y = MatMul(g, o)"
    of = model(gated, W, inputs="float[n,8] x", outputs="float[n,8] y")
    fused, report = fuse(of, "ort")
    assert report.rules["biased-gemm"] >= 1
    assert_same_function(of, fused)


def test_a_gated_one_with_a_factor_for_all_rows() -> None:
    """Its product of a vector stays; the other factor is still fused."""
    gated = "m = MatMul(r, w) s = Add(m, b) k = MatMul(x, v) u = Add(k, c) g = Mul(s, u) y = MatMul(g, o)"
    of = model(gated, W, inputs="float[8] r, float[n,8] x", outputs="float[n,8] y")
    fused, _ = fuse(of, "ort")
    assert operators(fused) == ["MatMul", "Add", "Gemm", "Mul", "MatMul"]
    assert_same_function(of, fused)


def test_packed() -> None:
    packed = """m = MatMul(x, p) s = Add(m, d) l, r = Split<axis = -1, num_outputs = 2>(s) a = Gelu(l) g = Mul(a, r)
                y = MatMul(g, o)"""
    of = model(packed, W, inputs="float[n,8] x", outputs="float[n,8] y")
    _, report = assert_fuses(of, ["Gemm", "Split", "Gelu", "Mul", "MatMul"], "ort")
    assert [site.status for site in report.sites] == ["rewritten"]


def test_an_activation_with_a_kernel_that_takes_the_bias_keeps_it() -> None:
    assert_fuses(model(ffn("Gelu(s)"), W), ["MatMul", "BiasGelu", "MatMul"], "ort")


@pytest.mark.parametrize("target", ["portable", "ort-cpu", "ort-cuda"])
def test_other_targets_keep_their_nodes(target: str) -> None:
    fused, _ = fuse(model(ffn("Mish(s)"), W), target)
    assert operators(fused) == ["MatMul", "Add", "Mish", "MatMul"]


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("a = Pow(s, two)", "Pow"),
        ("a = Mul(s, s)", "Mul"),
        ("k = Mul(s, two) a = Mish(k)", "Mul Mish"),
        ("i = Sigmoid(s) k = Mul(i, i) a = Mul(k, s)", "Sigmoid Mul Mul"),
    ],
)
def test_a_chain_of_operators(activation: str, expected: str) -> None:
    plain = f"m = MatMul(x, w) s = Add(m, b) {activation} y = MatMul(a, o)"
    assert_fuses(model(plain, f"{W}, float two = {{2}}"), [*GEMM, *expected.split(), "MatMul"], "ort")
    both = f"m = MatMul(x, w) s = Add(m, b) u = MatMul(x, v) r = Add(u, c) {activation}"
    gated = model(f"{both} g = Mul(a, r) y = MatMul(g, o)", f"{W}, float two = {{2}}")
    assert_fuses(gated, [*GEMM, *GEMM, *expected.split(), "Mul", "MatMul"], "ort")


@pytest.mark.parametrize(
    "body",
    [
        "m = MatMul(x, w) s = Add(m, b) a = Mish(s) y = Neg(a)",  # no feed-forward: nothing comes after it
        "m = MatMul(x, w) s = Add(m, b) a = Mish(s) y = MatMul(q, a)",  # it is the right operand
        "m = MatMul(x, w) s = Add(m, t) a = Mish(s) y = MatMul(a, o)",  # another bias for each token
        "m = MatMul(x, z) s = Add(m, b) a = Mish(s) y = MatMul(a, o)",  # the weight is no constant
        "m = MatMul(x, w) s = Add(m, b) y = Mul(s, m)",
        # In the chain of an activation, such as that of CONTRIBUTING.md, and alone none.
        "m = MatMul(x, w) s = Add(m, b) a = Neg(s) y = MatMul(a, o)",
        "m = MatMul(x, w) s = Add(m, b) n = Neg(s) a = Neg(n) y = MatMul(a, o)",
        "m = MatMul(x, w) s = Add(m, b) n = Neg(s) k = MatMul(x, v) u = Add(k, c) g = Mul(n, u) y = MatMul(g, o)",
        "m = MatMul(x, w) s = Add(m, b) n = Floor(s) g = Mul(s, n) y = MatMul(g, o)",  # nothing is activated
    ],
)
def test_what_is_none_stays(body: str) -> None:
    inputs = "float[2,3,8] x, float[2,3,2] q, float[8,4] z"
    of = model(body, W, inputs=inputs.replace("float[2,3,2] q", "float[2,8,3] q"), outputs="float[] y")
    fused, report = fuse(of, "ort")
    assert "Gemm" not in operators(fused)
    assert report.rules == {}


def test_before_opset_14_an_empty_batch_cannot_be_reshaped() -> None:
    of = model(ffn("Softplus(s)"), W, opset=13)
    fused, report = fuse(of, "ort")
    assert operators(fused) == ["MatMul", "Add", "Softplus", "MatMul"]
    assert [(site.status, site.reason) for site in report.sites] == [
        ("kept", "2 nodes compute between its two products: Add Softplus")
    ]
    of = model(ffn("Softplus(s)"), W, inputs="float[n,8] x", outputs="float[n,8] y", opset=13)
    assert_fuses(of, ["Gemm", "Softplus", "MatMul"], "ort")


def test_a_product_that_is_read_elsewhere() -> None:
    body = "m = MatMul(x, w) s = Add(m, b) a = Mish(s) r = MatMul(a, o) q = MatMul(m, o) y = Add(r, q)"
    fused, report = fuse(model(body, W), "ort")
    assert operators(fused) == operators(model(body, W))
    assert any("'m' is also read by MatMul" in str(site.reason) for site in report.sites)


def test_a_sum_that_is_read_elsewhere_is_still_there() -> None:
    body = "m = MatMul(x, w) s = Add(m, b) a = Mish(s) r = MatMul(a, o) q = MatMul(s, o) y = Add(r, q)"
    of = model(body, W, inputs="float[n,8] x", outputs="float[n,8] y")
    assert_fuses(of, ["Gemm", "Mish", "MatMul", "MatMul", "Add"], "ort")


def test_a_product_outside_of_the_body() -> None:
    branches = """y = If (k) <then_branch = a () => (float[n,8] g) { s = Add(m, b) h = Mish(s) g = MatMul(h, o) },
                                else_branch = e () => (float[n,8] q) { q = Neg(x) }>"""
    of = model("m = MatMul(x, w) " + branches, W, inputs="float[n,8] x, bool k", outputs="float[n,8] y")
    fused, _ = fuse(of, "ort")
    assert "Gemm" not in [node.op_type for node in fused.graph.all_nodes()]


def test_float64_is_refused() -> None:
    body = "m = MatMul(x, w) s = Add(m, b) a = Tanh(s) k = Mul(a, s) y = MatMul(k, o)"
    double = model(body, W.replace("float[", "double["), inputs="double[n,8] x", outputs="double[n,8] y")
    fused, report = fuse(double, "ort")
    assert "Gemm" not in operators(fused)
    assert any("is written for float, float16 and bfloat16" in str(site.reason) for site in report.sites)


def test_the_activation_keeps_its_name_and_the_sum_hands_on_its_own() -> None:
    of = model(ffn("Mish(s)"), W, inputs="float[n,8] x", outputs="float[n,8] y")
    for node in of.graph:
        node.name = node.op_type.lower()
    of.graph[3].name = "last"
    fused, _ = assert_fuses(of, ["Gemm", "Mish", "MatMul"], "ort")
    assert [node.name for node in fused.graph] == ["add", "mish", "last"]
