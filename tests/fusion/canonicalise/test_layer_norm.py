"""LayerNorm: every spelling becomes one LayerNormalization, where the operator computes just that."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_fuses, assert_refuses, assert_same_function, cast, model, operators

CONSTANTS = """float two = {2}, int64[1] axes = {-1}, float epsilon = {1e-5}, float half = {0.5}, float minus = {-0.5},
    float eight = {8}, float eighth = {0.125}, float one = {1}, float m1 = {-1}, float seven = {7}"""
SCALE = "float[8] g = {1.5,-1,0.25,2,1,0.5,3,-2}"
BIAS = "float[8] b = {1,2,3,4,-1,-2,-3,-4}"
CENTRES = [
    "u = ReduceMean(x, axes) d = Sub(x, u)",
    "t = ReduceSum(x, axes) u = Div(t, eight) d = Sub(x, u)",
    "k = ReduceMean<keepdims = 0>(x, axes) u = Unsqueeze(k, axes) d = Sub(x, u)",
    "u = ReduceMean(x, axes) n = Neg(u) d = Add(n, x)",
    "u = ReduceMean(x, axes) n = Mul(u, m1) d = Add(x, n)",
]
SQUARES = [
    "p = Pow(d, two) v = ReduceMean(p, axes)",
    "p = Mul(d, d) v = ReduceMean(p, axes)",
    "p = Mul(d, d) s = ReduceSum(p, axes) v = Mul(s, eighth)",
    "s = ReduceSumSquare(d, axes) v = Div(s, eight)",
]
QUOTIENTS = [
    "e = Add(v, epsilon) r = Sqrt(e) n0 = Div(d, r)",
    "e = Add(epsilon, v) r = Sqrt(e) i = Reciprocal(r) n0 = Mul(i, d)",
    "e = Add(epsilon, v) r = Pow(e, minus) n0 = Mul(d, r)",
    "e = Add(epsilon, v) r = Pow(e, half) i = Div(one, r) n0 = Mul(d, i)",
]
PIECES = f"{CENTRES[0]} {SQUARES[0]} {QUOTIENTS[0]}"
AFFINE = "a = Mul(n0, g) y = Add(a, b)"


def norm(pieces: str, more: str = f"{SCALE}, {BIAS}", *, opset: int = 18, **options: str) -> ir.Model:
    return model(pieces, f"{CONSTANTS}, {more}" if more else CONSTANTS, opset=opset, **options)


@pytest.mark.parametrize(("centre", "square", "quotient"), list(product(CENTRES, SQUARES, QUOTIENTS)))
def test_every_spelling(centre: str, square: str, quotient: str) -> None:
    fused, report = assert_fuses(norm(f"{centre} {square} {quotient} {AFFINE}"), ["LayerNormalization"])
    assert report.rules == {"layer-norm": 1, "norm-bias": 1, "norm-scale": 1}
    (node,) = fused.graph
    assert [value.name for value in node.inputs if value is not None] == ["x", "g", "b"]
    assert node.attributes.get_int("axis") == -1
    assert node.attributes.get_float("epsilon") == pytest.approx(1e-5)


PUT_BACK = """k{0} = {1}<keepdims = 0>({2}, axes) h{0} = Shape(k{0}) c{0} = Concat<axis = 0>(h{0}, last)
    t{0} = Reshape<allowzero = 1>(k{0}, c{0})"""
VARIANCE = "u = ReduceMean(x, axes) d = Sub(x, u) p = Mul(d, d)"


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("x", ["float[a,b,8] x", "float[2,3,8] x"])
def test_as_torch_writes_var_and_var_mean(x: str, expanded: bool) -> None:
    """A variance loses its axis and is reshaped to have it again; the mean beside it is another sum, over ``[2]``."""
    shape = "hx = Shape(x) rows = Slice(hx, zero, minus_one) kept = Concat<axis = 0>(rows, last)"
    mean, variance = PUT_BACK.format(1, "ReduceSum", "x"), PUT_BACK.format(2, "ReduceMean", "p")
    widened = (
        ("e1 = Expand(t1, kept)", "e2 = Expand(t2, kept)") if expanded else ("e1 = Identity(t1)", "e2 = Identity(t2)")
    )
    body = f"{shape} {VARIANCE} {mean} {variance} {' '.join(widened)} m = Div(e1, eight) d2 = Sub(x, m) "
    more = f"{SCALE}, {BIAS}, int64[1] last = {{1}}, int64[1] zero = {{0}}, int64[1] minus_one = {{-1}}"
    quotient = "e = Add(e2, epsilon) r = Sqrt(e) n0 = Div(d2, r) "
    of = norm(body + quotient + AFFINE, more, inputs=x, outputs=x.replace(" x", " y"))
    fused, _ = fuse(of, "portable")
    assert operators(fused) == ["LayerNormalization"]
    assert_same_function(of, fused, {"x": np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float32)})


def test_a_mean_with_an_axis_too_many_is_another() -> None:
    body = "k = ReduceMean<keepdims = 0>(x, axes) t = Unsqueeze(k, first) u = Unsqueeze(t, axes) d = Sub(x, u) "
    square = "p = Mul(d, d) v = ReduceMean(p, axes) e = Add(v, epsilon) r = Sqrt(e) y = Div(d, r)"
    of = norm(body + square, "int64[1] first = {1}", inputs="float[3,4,8] x", outputs="float[] y")
    fused, _ = fuse(of, "portable")
    assert "LayerNormalization" not in operators(fused)


def test_in_a_branch_whose_sizes_are_computed_outside() -> None:
    pieces = f"{VARIANCE} k = ReduceMean<keepdims = 0>(p, axes) t = Reshape(k, kept) e = Add(t, epsilon) r = Sqrt(e)"
    of = model(
        "hx = Shape(x) rows = Slice(hx, zero, minus_one) kept = Concat<axis = 0>(rows, last) "
        f"y = If(c) <then_branch = yes() => (float[2,3,8] a) {{ {pieces} a = Div(d, r) }}, "
        "else_branch = no() => (float[2,3,8] b) { b = Neg(x) }>",
        f"{CONSTANTS}, int64[1] last = {{1}}, int64[1] zero = {{0}}, int64[1] minus_one = {{-1}}",
        inputs="float[2,3,8] x, bool c",
        outputs="float[2,3,8] y",
        opset=18,
    )
    fused, _ = fuse(of, "portable")
    x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float32)
    assert_same_function(of, fused, {"x": x, "c": np.asarray(True)})


def test_a_variance_that_is_put_back_elsewhere_is_another() -> None:
    body = f"{VARIANCE} k = ReduceMean<keepdims = 0>(p, axes) t = Reshape(k, swapped) "
    quotient = "e = Add(t, epsilon) r = Sqrt(e) n0 = Div(d, r) "
    of = norm(
        body + quotient + AFFINE,
        f"{SCALE}, {BIAS}, int64[3] swapped = {{1, 3, 2}}",
        inputs="float[3,2,8] x",
        outputs="float[] y",
    )
    fused, report = fuse(of, "portable")
    assert "LayerNormalization" not in operators(fused)
    assert "not known to get its axes back" in str(report.sites[0].reason)


@pytest.mark.parametrize("affine", ["a = Mul(g, n0) y = Add(b, a)", "y = Mul(n0, g)", "y = Add(n0, b)", "y = Neg(n0)"])
def test_with_and_without_scale_and_bias(affine: str) -> None:
    expected = ["LayerNormalization", "Neg"] if "Neg" in affine else ["LayerNormalization"]
    assert_fuses(norm(f"{PIECES} {affine}"), expected)


def test_as_torchscript_of_opset_14_writes_it() -> None:
    """The means have their axes as an attribute there, and the exponent is an integer or a float."""
    pieces = (
        """u = ReduceMean<axes = [-1]>(x) d = Sub(x, u) p = Pow(d, two) v = ReduceMean<axes = [-1]>(p)
        e = Add(v, epsilon) r = Sqrt(e) n0 = Div(d, r)"""
        + AFFINE
    )
    fused, _ = assert_fuses(norm(pieces, opset=14), ["LayerNormalization"])
    assert fused.opset_imports == {"": 17}


def test_the_difference_computed_twice() -> None:
    pieces = """u = ReduceMean(x, axes) d = Sub(x, u) w = ReduceMean(x, axes) c = Sub(x, w) p = Mul(c, c)
        v = ReduceMean(p, axes) e = Add(v, epsilon) r = Sqrt(e) n0 = Div(d, r)"""
    assert_fuses(norm(f"{pieces} {AFFINE}"), ["LayerNormalization"])


TWICE = f"u = ReduceMean(x, axes) c = Sub(x, u) w = ReduceMean(c, axes) d = Sub(c, w) {SQUARES[1]} {{}} n0 = Div(c, r)"
ROOT = "e = Add(v, epsilon) r = Sqrt(e)"


def test_a_variance_that_centres_again() -> None:
    fused, _ = assert_fuses(norm(f"{TWICE.format(ROOT)} {AFFINE}"), ["LayerNormalization"])
    assert fused.graph[0].inputs[0] is fused.graph.inputs[0]


def test_a_norm_of_what_is_centred_takes_in_one_mean() -> None:
    """The centred value is read elsewhere, and the norm centres it again itself."""
    pieces = f"{TWICE.format(ROOT)} y = Add(n0, c)".replace("Div(c, r)", "Div(d, r)")
    assert_fuses(norm(pieces), ["ReduceMean", "Sub", "LayerNormalization", "Add"])


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        (f"{TWICE.format(ROOT)} y = Add(n0, c)", "intermediate 'c' is also read by Add"),
        (f"{TWICE.format(ROOT)} y = Neg(n0)".replace("Sub(x, u)", "Mul(x, u)"), None),  # not centred
        (f"{TWICE.format(ROOT)} y = Neg(n0)".replace("(x, axes)", "(x, both)"), None),  # over other axes
        (f"{TWICE.format(ROOT)} y = Neg(n0)".replace("axes", "first"), "not taken over constant trailing axes"),
        (f"{TWICE.format('e = Sqrt(v) r = Add(e, epsilon)')} y = Neg(n0)", "added to the root"),
    ],
)
def test_what_is_centred_twice_and_no_norm(pieces: str, reason: str | None) -> None:
    more = "int64[1] first = {0}, int64[2] both = {0,1}"
    assert_refuses(norm(pieces, more, inputs="float[8,8] x", outputs="float[8,8] y", opset=23), reason)


def test_several_axes() -> None:
    constants = CONSTANTS.replace("int64[1] axes = {-1}", "int64[2] axes = {1,2}")
    constants += ", float[2,4] g = {1,2,3,4,5,6,7,8}, float[1,2,4] b = {8,7,6,5,4,3,2,1}"
    pieces = f"{CENTRES[0]} {SQUARES[0]} {QUOTIENTS[0]} {AFFINE}"
    of = model(pieces, constants, inputs="float[n,2,4] x", outputs="float[n,2,4] y", opset=18)
    fused, _ = assert_fuses(of, ["LayerNormalization"])
    assert fused.graph[0].attributes.get_int("axis") == -2


def test_float16() -> None:
    assert_fuses(cast(norm(f"{PIECES} {AFFINE}"), ir.DataType.FLOAT16), ["LayerNormalization"])


def test_a_difference_from_another_mean_is_an_rms_norm_of_it() -> None:
    pieces = PIECES.replace("u = ReduceMean(x, axes)", "u = ReduceMax(x, axes)")
    assert_fuses(norm(pieces + " y = Neg(n0)", opset=23), ["ReduceMax", "Sub", "RMSNormalization", "Neg"])


@pytest.mark.parametrize(
    ("centre", "square", "reason"),
    [
        (
            "u = ReduceMean(x, first) d = Sub(x, u)",
            "p = Mul(d, d) v = ReduceMean(p, first)",
            "not taken over constant trailing axes",
        ),
        ("u = ReduceMean(x, both) d = Sub(x, u)", SQUARES[1], "the mean and the variance are taken over different"),
        (
            "k = ReduceMean<keepdims = 0>(x, axes) d = Sub(x, k)",
            "p = Mul(d, d) v = ReduceMean<keepdims = 0>(p, axes)",
            "the mean drops its axes (keepdims=0)",
        ),
    ],
)
def test_refuses_what_the_operator_does_not_compute(centre: str, square: str, reason: str) -> None:
    more = "int64[1] first = {0}, int64[2] both = {0,1}"
    of = norm(
        f"{centre} {square} {QUOTIENTS[0]} y = Neg(n0)", more, inputs="float[8,8] x", outputs="float[8,8] y", opset=23
    )
    assert_refuses(of, reason)


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        (f"{CENTRES[0]} p = Mul(d, d) s = ReduceSum(p, axes) v = Div(s, seven) {QUOTIENTS[0]}", "1.14286 times the"),
        (f"{CENTRES[0]} {SQUARES[0]} r = Sqrt(v) e = Add(r, epsilon) n0 = Div(d, e)", "added to the root"),
        (f"{CENTRES[0]} {SQUARES[0]} r = Sqrt(v) e = Max(epsilon, r) n0 = Div(d, e)", "a floor below the root"),
        (f"{CENTRES[0]} {SQUARES[0]} {QUOTIENTS[0]}".replace("Div(d, r)", "Div(x, r)"), None),  # not centred
        (f"{CENTRES[0]} {SQUARES[0]} r = Sqrt(v) e = Add(r, epsilon) n0 = Div(x, e)", None),
        (f"{CENTRES[0]} {SQUARES[0]} {QUOTIENTS[0]}".replace("Div(d, r)", "Mul(d, r)"), None),
    ],
)
def test_what_only_looks_alike(pieces: str, reason: str | None) -> None:
    assert_refuses(norm(pieces + " y = Neg(n0)"), reason)


def test_a_variance_of_another_value() -> None:
    pieces = f"{CENTRES[0]} w = ReduceMean(z, axes) c = Sub(z, w) p = Mul(c, c) v = ReduceMean(p, axes) {QUOTIENTS[0]}"
    inputs, outputs = "float[2,8] x, float[2,8] z", "float[2,8] y"
    assert_refuses(norm(pieces + " y = Neg(n0)", inputs=inputs, outputs=outputs), None)


def test_a_difference_that_is_read_elsewhere() -> None:
    assert_refuses(norm(PIECES + " y = Add(n0, d)"), "intermediate 'd' is also read by Add")


def test_a_variance_that_is_an_output() -> None:
    outputs = "float[2,8] y, float[2,1] v"
    assert_refuses(norm(PIECES + " y = Neg(n0)", inputs="float[2,8] x", outputs=outputs), "'v' is a graph output")


def test_float64_has_no_kernel() -> None:
    of = cast(norm(PIECES + " y = Neg(n0)", inputs="float[2,8] x", outputs="float[2,8] y"), ir.DataType.DOUBLE)
    assert_refuses(of, "LayerNormalization is written for float, float16 and bfloat16")


def test_a_mean_from_outside_of_a_body_is_not_taken_in() -> None:
    inner = "d = Sub(x, u) p = Mul(d, d) v = ReduceMean(p, axes) e = Add(v, epsilon) r = Sqrt(e) a = Div(d, r)"
    branches = f"""y = If (c) <then_branch = t () => (float[2,8] a) {{ {inner} }},
                                 else_branch = f () => (float[2,8] b0) {{ b0 = Neg(x) }}>"""
    of = norm("u = ReduceMean(x, axes)" + branches, inputs="float[2,8] x, bool c", outputs="float[2,8] y", opset=23)
    fused, _ = fuse(of, "portable")
    assert operators(fused) == ["ReduceMean", "If"]
    assert [n.op_type for n in fused.graph.all_nodes()][2:] == ["Sub", "RMSNormalization", "Neg"]
