"""While rules ask, values have proven shapes; afterwards each has the one that the model states."""

from __future__ import annotations

import re
from unittest import TestCase

import onnx_ir as ir
import pytest

from ffn_export.fusion.inference import prove_shapes
from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import X, model


def shapes(of: ir.Model) -> dict[str, str]:
    """Return the shape of each computed value, ``?`` for a size that is not known."""
    return {str(v.name): re.sub(r"unknown_\d+", "?", str(v.shape)) for node in of.graph for v in node.outputs}


def test_sets_dtype_and_shape() -> None:
    of = model("a = Neg(x) b = Transpose<perm = [0,2,1]>(a) y = Identity(x)")
    prove_shapes(of)
    assert shapes(of) == {"a": "[batch,seq,8]", "b": "[batch,8,seq]", "y": "[batch,seq,8]"}
    assert {node.outputs[0].dtype for node in of.graph} == {ir.DataType.FLOAT}


def test_axes_without_a_name_have_one_while_rules_ask() -> None:
    of = model("a = Neg(x) y = Neg(a)", inputs="float[?,seq,8] x", outputs="float[?,seq,8] y")
    stated = prove_shapes(of)
    assert shapes(of)["a"] == shapes(of)["y"] == "[?,seq,8]"
    stated.restore(of)
    assert [str(v.shape) for v in (*of.graph.inputs, *of.graph.outputs)] == ["[None,seq,8]", "[None,seq,8]"]
    assert shapes(of)["a"] == "None"


def test_statement_of_the_model_is_no_proof_and_comes_back() -> None:
    of = model("a = Neg(x) y = Neg(a)", outputs="float[b,s,8] y")
    of.graph[0].outputs[0].shape = ir.Shape(["mine", 3, 8])
    stated = prove_shapes(of)
    assert shapes(of) == {"a": "[batch,seq,8]", "y": "[batch,seq,8]"}
    stated.restore(of)
    assert shapes(of) == {"a": "[mine,3,8]", "y": "[b,s,8]"}


def test_unknown_operator_has_the_shape_that_the_model_states() -> None:
    of = model("u = my.Op(x) v = Neg(u) w = my.Op(x) y = Add(v, w)", domains=["my"])
    of.graph[0].outputs[0].shape = ir.Shape(["batch", "seq", 8])
    prove_shapes(of)
    assert shapes(of) == {"u": "[batch,seq,8]", "v": "[batch,seq,8]", "w": "None", "y": "None"}


def test_operators_of_onnx_runtime() -> None:
    of = model("u = com.microsoft.FastGelu(x) y = Neg(u)", domains=["com.microsoft"])
    prove_shapes(of)
    assert shapes(of) == {"u": "[batch,seq,8]", "y": "[batch,seq,8]"}
    assert of.graph[0].outputs[0].dtype == ir.DataType.FLOAT


def test_branches() -> None:
    branches = """y = If (c) <then_branch = t () => (float[b,s,8] o) { a = Neg(x) o = Neg(a) },
                                else_branch = e () => (float[b,s,8] p) { p = Neg(x) }>
                  z = If (c) <then_branch = f () => (float[] q) { q = Squeeze(x) },
                                else_branch = g () => (float[] r) { r = Neg(x) }>"""
    of = model(branches, inputs="float[b,s,8] x, bool c", outputs="float[b,s,8] y, float[] z")
    prove_shapes(of)
    assert shapes(of) == {"y": "[b,s,8]", "z": "None"}  # one branch may drop an axis of size 1


def test_state_of_a_loop_that_keeps_its_shape() -> None:
    loop = """y, g = Loop (n, c, x, x) <body = b (int64 i, bool go, float[] s, float[] t) =>
                  (bool on, float[] s1, float[] t1) { on = Identity(go) s1 = Neg(s) t1 = Concat<axis = 0>(t, x) }>"""
    of = model(loop, inputs=f"{X}, int64 n, bool c", outputs="float[] y, float[] g")
    prove_shapes(of)
    assert shapes(of) == {"y": "[batch,seq,8]", "g": "None"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Squeeze(x)", "None"),
        ("y, r = Split<axis = 1, num_outputs = 2>(x)", "[batch,?,8]"),
        (
            "a = Constant<value_ints = [-3]>() e = Constant<value_ints = [-1]>() o = Constant<value_ints = [1]>() "
            "y = Slice(x, a, e, o)",
            "[batch,?,8]",
        ),
        ('y = Einsum<equation = "bsd,bsd->bs">(x, w)', "[batch,seq]"),  # broadcast: w has batch 1
        ('y = Einsum<equation = "bsd,bsd->sd">(w, w)', "[1,8]"),
        ("s = Shape(x) y = Reshape(x, s)", "[batch,seq,8]"),
        ("t = Transpose<perm = [1,0,2]>(x) s = Shape(x) y = Reshape(t, s)", "[?,?,8]"),
        ("t = Transpose<perm = [1,0,2]>(x) s = Shape(x) y = Reshape<allowzero = 1>(t, s)", "[batch,seq,8]"),
    ],
)
def test_is_not_guessed(body: str, expected: str) -> None:
    of = model(body, "float[1,1,8] w = {1,1,1,1,1,1,1,1}", outputs="float[] y")
    prove_shapes(of)
    assert shapes(of)["y"] == expected


def test_start_of_a_table_has_the_size_beside_which_it_is_added() -> None:
    table = "float[4,8] table = {" + ",".join(["1"] * 32) + "}"
    body = """n = Shape<start = 1, end = 2>(x) zero = Constant<value_ints = [0]>()
              t = Slice(table, zero, n) y = Add(x, t)"""
    of = model(body, table)
    prove_shapes(of)
    assert shapes(of)["t"] == "[?,8]"  # 4 where seq is longer: then the sum fails
    assert shapes(of)["y"] == "[batch,seq,8]"
    short = model(body.replace("Slice(table", "Slice(small"), "float[1,8] small = {1,1,1,1,1,1,1,1}")
    prove_shapes(short)
    assert shapes(short)["y"] == "[batch,?,8]"  # a row of one is broadcast


def test_strided_convolutions_divide_the_length() -> None:
    body = """short = Conv<strides = [5]>(x, k) y = Conv<strides = [4]>(short, k)
              s = Shape(short) z = Reshape(short, s)"""
    of = model(body, "float[1,1,5] k = {1,1,1,1,1}", inputs="float[batch,1,n] x", outputs="float[] y, float[] z")
    prove_shapes(of)
    found = shapes(of)
    assert found["short"] == found["z"] == "[batch,1,(n)//5]"  # 1 or more, so no 0 copies another axis
    assert found["y"] == "[batch,1,(n + 15)//20 + -1]"  # floor((floor(n / 5) - 1) / 4), with one floor


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ("q = Div(n, two)", "(seq)//2"),
        ("h = Add(n, two) q = Div(h, two)", "(seq)//2 + 1"),
        ("h = Div(n, two) q = Div(h, two)", "(seq)//4"),
        ("h = Mul(n, four) q = Div(h, two)", "2*seq"),
        ("h = Neg(n) q = Div(h, two)", "?"),
    ],
)
def test_quotients_are_cut_down(numbers: str, expected: str) -> None:
    weights = "int64[1] two = {2}, int64[1] four = {4}"
    of = model(f"n = Shape<start = 1, end = 2>(x) {numbers} y = ConstantOfShape(q)", weights, outputs="float[] y")
    prove_shapes(of)
    assert shapes(of)["y"] == f"[{expected}]"


def test_smaller_one_of_a_length_and_a_table_is_the_length_beside_which_it_is_added() -> None:
    body = """n = Shape<start = 1, end = 2>(x) m = Min(n, most) s = Concat<axis = 0>(two, m, eight)
              t = Expand(row, s) y = Add(x, t)"""
    weights = "int64[1] most = {64}, int64[1] two = {1}, int64[1] eight = {8}, float[1] row = {1}"
    of = model(body, weights)
    prove_shapes(of)
    assert shapes(of)["t"] == "[1,?,8]"
    assert shapes(of)["y"] == "[batch,seq,8]"


@pytest.mark.parametrize(("opset", "inputs"), [(17, "p"), (20, "p, , axis")])
def test_fourier_transform_keeps_lengths(opset: int, inputs: str) -> None:
    weights = "int64[1] last = {3}, int64 axis = {1}"
    body = f"p = Unsqueeze(x, last) d = DFT({inputs}) h = DFT<onesided = 1>({inputs})"
    of = model(body, weights, outputs="float[] d, float[] h", opset=opset)
    prove_shapes(of)
    assert shapes(of)["d"] == "[batch,seq,8,2]"
    assert shapes(of)["h"] == "[batch,(seq)//2 + 1,8,2]"


def test_what_a_branch_needs_does_not_bind_what_runs_without_it() -> None:
    body = """c = Greater(w, zero)
              b = If(c)<then_branch = t () => (float[] p) { p = Conv<strides = [5]>(x, k) },
                        else_branch = e () => (float[] q) { q = Identity(x) }>
              n = Shape<start = 2, end = 3>(x) five = Constant<value_ints = [5]>() one = Constant<value_ints = [1]>()
              h = Div(n, five) r = Sub(h, one) eight = Concat<axis = 0>(one, r) y = Expand(k, eight)"""
    of = model(
        body,
        "float[1,1,5] k = {1,1,1,1,1}, float zero = {0}",
        inputs="float[batch,1,n] x, float w",
        outputs="float[] y",
    )
    prove_shapes(of)
    assert shapes(of)["y"] == "[1,1,5]"


def test_polynomial_is_not_taken_for_an_axis_of_that_name() -> None:
    of = model(
        "y = Concat<axis = 0>(x, x) z = Neg(w)", inputs='float[b] x, float["2*b"] w', outputs="float[] y, float[] z"
    )
    prove_shapes(of)
    assert shapes(of) == {"y": "[(2*b)]", "z": "[2*b]"}


def test_contradiction_is_quiet() -> None:
    of = model("a = Neg(x) b = MatMul(a, a) y = Identity(b)", inputs="float[2,3] x", outputs="float[7] y")
    with TestCase().assertNoLogs(level="DEBUG"):
        prove_shapes(of).restore(of)
    assert str(of.graph.outputs[0].shape) == "[7]"


@pytest.mark.parametrize("target", ["portable", "ort-cpu"])
def test_file_states_no_shape_that_the_model_does_not(target: str) -> None:
    of = model(
        "s = Sigmoid(x) h = Mul(x, s) q = Squeeze(h) r = Unsqueeze(q, z) y = Neg(r)",
        "int64[1] z = {0}",
        outputs="float[?,?,?] y",
    )
    of.graph[0].outputs[0].shape = ir.Shape(["batch", "seq", 8])
    fused, report = fuse(of, target)
    assert report.rules
    stated = [value for node in fused.graph for value in node.outputs if value.shape is not None]
    assert [value.name for value in stated] == ["y"]


def test_initializers_and_interface_are_as_before() -> None:
    large = "float[8,64] w = {" + ",".join(["0.5"] * 512) + "}"
    of = model("h = MatMul(x, w) y = Neg(h)", large, outputs="float[batch,seq,64] y")
    weight = of.graph.initializers["w"].const_value
    before = of.graph.outputs[0].shape
    prove_shapes(of).restore(of)
    assert of.graph.initializers["w"].const_value is weight
    assert [value.name for value in of.graph.inputs] == ["x"]
    assert of.graph.outputs[0].shape is before
