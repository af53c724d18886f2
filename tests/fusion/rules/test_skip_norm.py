"""A residual sum and its norm in one node, with the bias folded and the sum as an output where it goes on."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_fuses, assert_refuses, assert_same_function, cast, model, operators

ROW = "{1,2,3,4,5,6,7,8}"
CONSTANTS = f"float[8] g = {ROW}, float[8] b = {ROW}, float[8] c = {ROW}, float[3] three = {{1,2,3}}"
XS = "float[batch,seq,8] x, float[batch,seq,8] r"
BOTH = "float[batch,seq,8] y, float[batch,seq,8] z"
NORMS = [
    ("LayerNormalization(t, g, b)", "SkipLayerNormalization"),
    ("LayerNormalization(t, g)", "SkipLayerNormalization"),
    ("LayerNormalization<axis = 2, epsilon = 0.001>(t, g, b)", "SkipLayerNormalization"),
    ("RMSNormalization(t, g)", "SkipSimplifiedLayerNormalization"),
    ("RMSNormalization<epsilon = 0.01>(t, g)", "SkipSimplifiedLayerNormalization"),
]
SUMS = [
    "t = Add(x, r)",
    "s = Add(x, c) t = Add(s, r)",
    "s = Add(c, x) t = Add(s, r)",
    "s = Add(x, c) t = Add(r, s)",
    "s = Add(c, x) t = Add(r, s)",
]


@pytest.mark.parametrize(
    ("target", "dtype"), [("ort", ir.DataType.FLOAT), ("ort-cuda", ir.DataType.FLOAT16)], ids=["ort", "ort-cuda"]
)
@pytest.mark.parametrize(("norm", "written"), NORMS)
@pytest.mark.parametrize("total", SUMS)
def test_sum_bias_and_norm_are_one_node(total: str, norm: str, written: str, target: str, dtype: ir.DataType) -> None:
    of = cast(model(f"{total} y = {norm}", CONSTANTS, inputs=XS), dtype)
    fused, report = assert_fuses(of, [written], target)
    assert report.count("residual_norm") == report.count("norm") == 1
    assert len(fused.graph[0].outputs) == 1
    assert fused.graph[0].inputs[-1] is not None


def test_for_cuda_a_sum_and_its_layer_norm_in_float32_are_apart() -> None:
    of = model("t = Add(x, r) y = LayerNormalization(t, g, b)", CONSTANTS, inputs=XS)
    assert_refuses(of, "CUDA's kernel of both loses digits in float32", "ort-cuda")
    joined, _ = fuse(of, "ort")
    assert operators(joined) == ["SkipLayerNormalization"]
    apart, _ = fuse(joined, "ort-cuda")
    assert operators(apart) == ["Add", "LayerNormalization"]
    assert_same_function(of, apart)


def test_an_absent_epsilon_is_onnxs_default_and_not_the_operators() -> None:
    fused, _ = assert_fuses(
        model("t = Add(x, r) y = LayerNormalization(t, g, b)", CONSTANTS, inputs=XS), ["SkipLayerNormalization"], "ort"
    )
    assert fused.graph[0].attributes.get_float("epsilon") == pytest.approx(1e-5)


@pytest.mark.parametrize(("norm", "written"), NORMS)
@pytest.mark.parametrize("total", SUMS)
def test_a_sum_that_goes_on_is_the_fourth_output(total: str, norm: str, written: str) -> None:
    # The reader of the sum stands before the norm: the fused node has to come before it.
    of = model(f"{total} z = Neg(t) y = {norm}", CONSTANTS, inputs=XS, outputs=BOTH)
    fused, _ = assert_fuses(of, [written, "Neg"], "ort")
    assert [bool(output.name) for output in fused.graph[0].outputs] == [True, False, False, True]


def test_a_sum_that_is_a_graph_output() -> None:
    of = model("t = Add(x, r) y = RMSNormalization(t, g)", CONSTANTS, inputs=XS, outputs=BOTH.replace(" z", " t"))
    assert_fuses(of, ["SkipSimplifiedLayerNormalization"], "ort")


def test_a_sum_of_three() -> None:
    of = model("s = Add(x, r) t = Add(s, x) y = RMSNormalization(t, g)", CONSTANTS, inputs=XS)
    assert_fuses(of, ["Add", "SkipSimplifiedLayerNormalization"], "ort")


def test_both_addends_may_be_one_value() -> None:
    of = model("t = Add(x, x) y = LayerNormalization(t, g, b)", CONSTANTS)
    assert_fuses(of, ["SkipLayerNormalization"], "ort")


def test_two_blocks_of_a_stack() -> None:
    body = "t = Add(x, r) n = RMSNormalization(t, g) u = Add(t, n) y = RMSNormalization(u, g)"
    skip = "SkipSimplifiedLayerNormalization"
    assert_fuses(model(body, CONSTANTS, inputs=XS), [skip, skip], "ort")


def test_rank_2() -> None:
    inputs, outputs = "float[n,8] x, float[n,8] r", "float[n,8] y"
    of = model("t = Add(x, r) y = LayerNormalization(t, g, b)", CONSTANTS, inputs=inputs, outputs=outputs)
    assert_fuses(of, ["SkipLayerNormalization"], "ort")


def test_float16() -> None:
    of = cast(model("t = Add(x, r) y = LayerNormalization(t, g, b)", CONSTANTS, inputs=XS), ir.DataType.FLOAT16)
    assert_fuses(of, ["SkipLayerNormalization"], "ort")


@pytest.mark.parametrize(
    ("inputs", "norm", "reason"),
    [
        ("float[batch,seq,8] x, float[batch,1,8] r", NORMS[0][0], "the addends have shapes"),
        ("float[batch,seq,8] x, float[batch,s2,8] r", NORMS[0][0], "the addends have shapes"),
        (XS, "LayerNormalization<axis = 1>(t, k)", "over more than the last axis"),
        (XS, "RMSNormalization(t, one)", "scale is not one number for each feature"),
        (XS, "LayerNormalization<stash_type = 11>(t, g)", "statistics are not in float32"),
    ],
)
def test_what_the_kernel_does_not_compute_is_refused(inputs: str, norm: str, reason: str) -> None:
    inputs = inputs.replace("batch,seq", "batch,2") if "k" in norm else inputs
    constants = f"{CONSTANTS}, float[1] one = {{2}}, float[2,8] k = {{{','.join('1' * 16)}}}"
    of = model(f"t = Add(x, r) y = {norm}", constants, inputs=inputs)
    assert_refuses(of, reason, "ort", runs=False)


@pytest.mark.parametrize(("norm", "written"), NORMS)
@pytest.mark.parametrize("total", SUMS)
def test_other_ranks_go_through_rows(total: str, norm: str, written: str) -> None:
    shape = "float[2,3,4,8]"
    of = model(
        f"{total} y = {norm.replace('axis = 2', 'axis = 3')}",
        CONSTANTS,
        inputs=f"{shape} x, {shape} r",
        outputs=f"{shape} y",
    )
    assert_fuses(of, ["Reshape", "Reshape", written, "Shape", "Reshape"], "ort")
    goes_on = model(
        f"{total} z = Neg(t) y = {norm.replace('axis = 2', 'axis = 3')}",
        CONSTANTS,
        inputs=f"{shape} x, {shape} r",
        outputs=f"{shape} y, {shape} z",
    )
    fused, _ = fuse(goes_on, "ort")
    assert operators(fused).count(written) == 1
    assert "Add" not in operators(fused)
    assert_same_function(goes_on, fused)


def test_one_row_has_rank_1_and_one_number_has_no_feature() -> None:
    body = "t = Add(x, r) y = LayerNormalization(t, g)"
    of = model(body, CONSTANTS, inputs="float[8] x, float[8] r", outputs="float[8] y")
    assert_fuses(of, ["Reshape", "Reshape", "SkipLayerNormalization", "Shape", "Reshape"], "ort")
    of = model(body, "float[1] g = {2}", inputs="float x, float r", outputs="float y")
    assert_refuses(of, "scale is not one number for each feature", "ort", runs=False)


def test_an_empty_batch_of_rank_4() -> None:
    shape = "float[a,b,c,8]"
    of = model(
        "t = Add(x, r) y = LayerNormalization(t, g, b)", CONSTANTS, inputs=f"{shape} x, {shape} r", outputs=f"{shape} y"
    )
    fused, _ = fuse(of, "ort")
    nothing = np.ones((0, 3, 2, 8), np.float32)
    assert_same_function(of, fused, {"x": nothing, "r": nothing})
    assert fused.graph[-1].attributes.get_int("allowzero") == 1


def test_before_opset_14_an_empty_batch_cannot_be_reshaped() -> None:
    shape = "float[2,3,4,8]"
    body = "h = Softmax<axis = 1>(x) t = Add(h, r) y = LayerNormalization(t, g, b)"
    of = model(body, CONSTANTS, inputs=f"{shape} x, {shape} r", outputs=f"{shape} y", opset=12)
    assert_refuses(of, "reshaping to rows and back needs opset 14", "ort", runs=False)
    matrix = model(body, CONSTANTS, inputs="float[2,8] x, float[2,8] r", outputs="float[2,8] y", opset=12)
    assert operators(fuse(matrix, "ort")[0]) == ["Softmax", "SkipLayerNormalization"]


def test_a_sum_of_two() -> None:
    of = model("t = Sum(x, r) y = LayerNormalization(t, g, b)", CONSTANTS, inputs=XS)
    fused, _ = assert_fuses(of, ["SkipLayerNormalization"], "ort")
    assert list(fused.graph[0].inputs[:2]) == list(fused.graph.inputs)  # in their order


@pytest.mark.parametrize("b", ["float[1,1,8] k = " + ROW, "float k = {2}", "float[1] k = {2}"])
def test_a_bias_in_any_shape_that_holds_one_number_for_each_feature(b: str) -> None:
    of = model("s = Add(x, k) t = Add(s, r) y = RMSNormalization(t, g)", f"{CONSTANTS}, {b}", inputs=XS)
    assert_fuses(of, ["SkipSimplifiedLayerNormalization"], "ort")


def test_a_bias_for_each_token_is_none() -> None:
    of = model(
        "s = Add(x, k) t = Add(s, r) y = RMSNormalization(t, g)",
        f"{CONSTANTS}, float[3,1] k = {{1,2,3}}",
        inputs="float[2,3,8] x, float[2,3,8] r",
        outputs="float[2,3,8] y",
    )
    assert_fuses(of, ["Add", "SkipSimplifiedLayerNormalization"], "ort")


def test_a_biased_addend_that_is_read_elsewhere_stays() -> None:
    of = model("s = Add(x, c) t = Add(s, r) n = RMSNormalization(t, g) y = Add(n, s)", CONSTANTS, inputs=XS)
    assert_fuses(of, ["Add", "SkipSimplifiedLayerNormalization", "Add"], "ort")


def test_a_reshape_between_the_sum_and_the_norm_is_looked_through() -> None:
    body = "t = Add(x, r) f = Reshape(t, rows) y = LayerNormalization(f, g, b)"
    constants = CONSTANTS + ", int64[2] rows = {-1,8}"
    of = model(body, constants, inputs=XS, outputs="float[n,8] y")
    assert_fuses(of, ["SkipLayerNormalization", "Reshape"], "ort")
    goes_on = model(body + " z = Neg(f)", constants, inputs=XS, outputs="float[n,8] y, float[n,8] z")
    fused, _ = fuse(goes_on, "ort")
    assert sorted(operators(fused)) == ["Neg", "Reshape", "Reshape", "SkipLayerNormalization"]
    assert_same_function(goes_on, fused)
    body = "t = Add(x, r) f = Reshape(t, rows) h = Unsqueeze(f, first) y = LayerNormalization(h, g, b)"
    twice = model(body, constants + ", int64[1] first = {0}", inputs=XS, outputs="float[1,n,8] y")
    fused, _ = assert_fuses(twice, ["SkipLayerNormalization", "Reshape", "Unsqueeze"], "ort")
    assert len(fused.graph[0].outputs) == 1


def test_a_sum_outside_of_the_body() -> None:
    branches = """y = If (k) <then_branch = p () => (float[2,8] a) { a = LayerNormalization(t, g, b) },
                                else_branch = e () => (float[2,8] q) { q = Neg(x) }>"""
    of = model(
        "t = Add(x, r) " + branches, CONSTANTS, inputs="float[2,8] x, float[2,8] r, bool k", outputs="float[2,8] y"
    )
    fused, _ = fuse(of, "ort")
    assert operators(fused) == ["Add", "If"]
    body = branches.replace("{ a =", "{ t = Add(s, r) a =")
    of = model("s = Add(x, c) " + body, CONSTANTS, inputs="float[2,8] x, float[2,8] r, bool k", outputs="float[2,8] y")
    fused, _ = fuse(of, "ort")
    assert operators(fused) == ["Add", "If"]
    assert "SkipLayerNormalization" in [node.op_type for node in fused.graph.all_nodes()]


def test_a_bias_that_is_an_input_is_an_addend() -> None:
    body = "s = Add(x, p) t = Add(s, r) y = RMSNormalization(t, g)"
    assert_fuses(model(body, CONSTANTS, inputs=f"{XS}, float[8] p"), ["Add", "SkipSimplifiedLayerNormalization"], "ort")


def test_a_computed_scale_and_a_sum_that_goes_on() -> None:
    """The node would give the sum to what computes its own scale."""
    inputs = f"{XS}, float[8] q"
    computed = "t = Add(x, r) h = Neg(q) y = RMSNormalization(t, h)"
    of = model(computed + " z = Neg(t)", CONSTANTS, inputs=inputs, outputs=BOTH)
    assert_refuses(of, "the norm's scale or bias is computed, and the sum is read elsewhere", "ort")
    fused, _ = fuse(model(computed, CONSTANTS, inputs=inputs), "ort")
    assert sorted(operators(fused)) == ["Neg", "SkipSimplifiedLayerNormalization"]
    of = model(computed.replace("Neg(q)", "Neg(g)") + " z = Neg(t)", CONSTANTS, inputs=XS, outputs=BOTH)
    fused, _ = fuse(of, "ort")
    assert "Add" not in operators(fused)
    given = model("t = Add(x, r) y = RMSNormalization(t, q) z = Neg(t)", CONSTANTS, inputs=inputs, outputs=BOTH)
    assert_fuses(given, ["SkipSimplifiedLayerNormalization", "Neg"], "ort")


def test_addends_of_no_known_rank_are_refused() -> None:
    of = model(
        "t = Add(x, r) y = LayerNormalization(t, g, b)", CONSTANTS, inputs="float[] x, float[] r", outputs="float[] y"
    )
    assert_refuses(of, "the addends have shapes None and None", "ort", runs=False)


@pytest.mark.parametrize(("sum_dtype", "scale_dtype"), [("float", "float16"), ("float16", "float")])
def test_a_scale_of_another_dtype_is_refused(sum_dtype: str, scale_dtype: str) -> None:
    inputs = f"{sum_dtype}[2,8] x, {sum_dtype}[2,8] r, {scale_dtype}[8] q"
    of = model("t = Add(x, r) y = RMSNormalization(t, q)", inputs=inputs, outputs=f"{scale_dtype}[2,8] y")
    assert_refuses(of, "the norm's scale or bias has another dtype", "ort", runs=False)


def test_statistics_that_are_read_are_refused() -> None:
    of = model(
        "t = Add(x, r) y, m = LayerNormalization(t, g, b)",
        CONSTANTS,
        inputs=XS,
        outputs="float[batch,seq,8] y, float[batch,seq,1] m",
    )
    assert_refuses(of, "the mean or the inverse deviation of the norm is read", "ort")


def test_a_bias_before_a_norm_is_no_residual() -> None:
    of = model("t = Add(x, c) y = LayerNormalization(t, g, b)", CONSTANTS)
    assert_refuses(of, None, "ort")
    computed = model("n = Neg(c) t = Add(x, n) y = LayerNormalization(t, g, b)", CONSTANTS)
    assert_fuses(computed, ["Add", "LayerNormalization"], "ort")  # the bias is computed once


@pytest.mark.parametrize("target", ["portable", "ort-cpu"])
def test_other_targets_keep_the_two_apart_and_say_why(target: str) -> None:
    of = model("t = Add(x, r) y = LayerNormalization(t, g, b)", CONSTANTS, inputs=XS)
    _, report = assert_fuses(of, ["Add", "LayerNormalization"], target)
    (site,) = (s for s in report.sites if s.kind == "residual_norm")
    assert site.status == "kept"
    assert site.reason


@pytest.mark.parametrize("positions", ["float[1,seq,8]", "float[seq,8]"])
@pytest.mark.parametrize(
    "total", ["t = Add(x, r)", "t = Add(r, x)", "s = Add(x, c) t = Add(s, r)", "s = Add(c, r) t = Add(x, s)"]
)
def test_an_addend_that_is_the_same_for_every_batch(total: str, positions: str) -> None:
    inputs = f"float[batch,seq,8] x, {positions} r"
    fused, _ = assert_fuses(
        model(f"{total} y = LayerNormalization(t, g, b)", CONSTANTS, inputs=inputs), ["SkipLayerNormalization"], "ort"
    )
    assert fused.graph[0].inputs[0] is fused.graph.inputs[0]


def test_the_addend_with_more_axes_comes_first() -> None:
    inputs, outputs = "float[seq,8] x, float[1,seq,8] r", "float[1,seq,8] y"
    of = model("t = Add(x, r) y = LayerNormalization(t, g, b)", CONSTANTS, inputs=inputs, outputs=outputs)
    fused, _ = assert_fuses(of, ["SkipLayerNormalization"], "ort")
    assert fused.graph[0].inputs[0] is fused.graph.inputs[1]


@pytest.mark.parametrize("other", ["float[batch,1,8]", "float[1,1,8]", "float[1,other,8]", "float[seq,1]", "float[8]"])
def test_other_broadcasts_are_refused(other: str) -> None:
    of = model("t = Add(x, r) y = LayerNormalization(t, g, b)", CONSTANTS, inputs=f"float[batch,seq,8] x, {other} r")
    assert_refuses(of, "the addends have shapes", "ort", runs=False)
