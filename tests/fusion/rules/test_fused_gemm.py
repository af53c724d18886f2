"""Product, bias and activation in one node, for matrices and for what has to be reshaped to rows."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_fuses, assert_refuses, assert_same_function, cast, model, operators

CONSTANTS = "float[8,2] w = {1,-2,3,-4,5,-6,7,-8,8,7,-6,5,-4,3,-2,1}, float[2] b = {0.5,-0.5}"
OUT = "float[batch,seq,2] y"
ROWS = ["Reshape", "FusedGemm", "Shape", "Concat", "Reshape"]
ACTIVATIONS = ["Relu(s)", "Tanh(s)", "LeakyRelu(s)", "LeakyRelu<alpha = 0.3>(s)", "Elu(s)", "Elu<alpha = 0.5>(s)"]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    "linear", ["m = MatMul(x, w) s = Add(m, b)", "m = MatMul(x, w) s = Add(b, m)", "s = MatMul(x, w)"]
)
def test_rank_3_goes_through_rows(linear: str, activation: str) -> None:
    of = model(f"{linear} y = {activation}", CONSTANTS, outputs=OUT)
    fused, _ = assert_fuses(of, ROWS, "ort")
    for shape in [(0, 3, 8), (3, 0, 8), (1, 1, 8)]:
        assert_same_function(of, fused, {"x": np.ones(shape, np.float32)})


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    "linear",
    [
        "m = MatMul(x, w) s = Add(m, b)",
        "s = Gemm(x, w, b)",
        "s = Gemm<alpha = 2.0, beta = 3.0>(x, w, b)",
        "s = Gemm(x, w)",
    ],
)
def test_a_matrix_needs_no_reshape(linear: str, activation: str) -> None:
    of = model(f"{linear} y = {activation}", CONSTANTS, inputs="float[n,8] x", outputs="float[n,2] y")
    assert_fuses(of, ["FusedGemm"], "ort")


@pytest.mark.parametrize("gemm", ["Gemm(x, w)", "Gemm<alpha = 0.5>(x, w)", "Gemm<beta = 0.0>(x, w)"])
def test_a_bias_after_a_gemm_without_one(gemm: str) -> None:
    of = model(f"m = {gemm} s = Add(b, m) y = Relu(s)", CONSTANTS, inputs="float[n,8] x", outputs="float[n,2] y")
    assert_fuses(of, ["FusedGemm"], "ort")


@pytest.mark.parametrize("gemm", ["Gemm(x, w, b)", "Gemm<transA = 1>(x, w)"])
def test_a_gemm_with_a_bias_of_its_own_or_a_turned_input_keeps_the_sum(gemm: str) -> None:
    of = model(f"m = {gemm} s = Add(m, b) y = Relu(s)", CONSTANTS, inputs="float[8,8] x", outputs="float[8,2] y")
    assert_fuses(of, ["Gemm", "Add", "Relu"], "ort")


def test_transposed_weight_of_a_gemm() -> None:
    constants = "float[2,8] w = {1,-2,3,-4,5,-6,7,-8,8,7,-6,5,-4,3,-2,1}, float[2] b = {0.5,-0.5}"
    of = model("s = Gemm<transB = 1>(x, w, b) y = Relu(s)", constants, inputs="float[n,8] x", outputs="float[n,2] y")
    assert_fuses(of, ["FusedGemm"], "ort")


@pytest.mark.parametrize("target", ["portable", "ort-cpu", "ort-cuda"])
def test_other_targets_keep_their_nodes(target: str) -> None:
    of = model("m = MatMul(x, w) s = Add(m, b) y = Relu(s)", CONSTANTS, outputs=OUT)
    assert_fuses(of, ["MatMul", "Add", "Relu"], target)


def test_a_weight_that_is_computed_or_may_be_overridden_stays() -> None:
    of = model("y = MatMul(x, w) z = Relu(y)", inputs="float[n,4,8] x, float[8,2] w", outputs="float[n,4,2] z")
    assert_refuses(of, None, "ort")


def test_a_bias_that_is_no_row_is_refused() -> None:
    constants = CONSTANTS.replace("float[2] b = {0.5,-0.5}", "float[3,1] b = {0.5,-0.5,1}")
    body = "m = MatMul(x, w) s = Add(m, b) y = Relu(s)"
    of = model(body, constants, inputs="float[2,3,8] x", outputs="float[2,3,2] y")
    assert_refuses(of, "not one number for each feature", "ort")


def test_a_sum_of_two_biases_is_no_bias_of_another_shape() -> None:
    of = model("m = MatMul(x, w) s = Add(m, b) t = Add(s, b) y = Relu(t)", CONSTANTS, outputs=OUT)
    assert_refuses(of, None, "ort")


@pytest.mark.parametrize("b", ["float[1] b = {0.5}", "float b = {0.5}", "float[1,1,2] b = {0.5,-0.5}"])
def test_a_bias_in_any_shape_that_holds_one_number_for_each_feature(b: str) -> None:
    constants = CONSTANTS.replace("float[2] b = {0.5,-0.5}", b)
    of = model("m = MatMul(x, w) s = Add(m, b) y = Relu(s)", constants, outputs=OUT)
    assert_fuses(of, ROWS, "ort")


@pytest.mark.parametrize("body", ["s = Add(m, b) r = Reshape(s, rows)", "k = Reshape(m, rows) r = Add(k, b)"])
def test_reshapes_on_the_way_to_the_activation_are_looked_through(body: str) -> None:
    constants = CONSTANTS + ", int64[2] rows = {-1,2}"
    of = model(f"m = MatMul(x, w) {body} y = Relu(r)", constants, outputs="float[n,2] y")
    assert_fuses(of, [*ROWS, "Reshape"], "ort")


def test_a_reshape_that_is_read_elsewhere_is_refused() -> None:
    constants = CONSTANTS + ", int64[2] rows = {-1,2}"
    of = model(
        "m = MatMul(x, w) s = Add(m, b) r = Reshape(s, rows) a = Relu(r) y = Sub(a, r)",
        constants,
        outputs="float[n,2] y",
    )
    assert_refuses(of, "'r' is also read by Sub", "ort")


def test_bfloat16_has_no_kernel() -> None:
    of = model("m = MatMul(x, w) s = Add(m, b) y = Relu(s)", CONSTANTS, inputs="float[n,8] x", outputs="float[n,2] y")
    fused, report = fuse(cast(of, ir.DataType.BFLOAT16), "ort")
    assert operators(fused) == ["MatMul", "Add", "Relu"]
    assert report.sites == ()


def test_a_rank_that_is_not_known_is_refused() -> None:
    of = model("m = MatMul(x, w) y = Relu(m)", CONSTANTS, inputs="float[] x", outputs="float[] y")
    assert_refuses(of, "the rank of the input is not known", "ort", runs=False)


def test_a_product_that_is_read_elsewhere_is_refused() -> None:
    of = model("m = MatMul(x, w) r = Relu(m) y = Sub(r, m)", CONSTANTS, outputs=OUT)
    assert_refuses(of, "'m' is also read by Sub", "ort")


def test_before_opset_14_an_empty_batch_cannot_be_reshaped() -> None:
    of = model("m = MatMul(x, w) s = Add(m, b) y = Relu(s)", CONSTANTS, outputs=OUT, opset=13)
    assert_refuses(of, "needs opset 14", "ort")


def test_before_opset_15_the_shape_is_cut_by_another_node() -> None:
    of = model("m = MatMul(x, w) s = Add(m, b) y = Relu(s)", CONSTANTS, outputs=OUT, opset=14)
    assert_fuses(of, ["Reshape", "FusedGemm", "Shape", "Slice", "Concat", "Reshape"], "ort")


def test_an_activation_that_the_kernel_lacks_stays() -> None:
    of = model("m = MatMul(x, w) s = Add(m, b) y = Softplus(s)", CONSTANTS, outputs=OUT)
    assert operators(assert_fuses(of, ["MatMul", "Add", "Softplus"], "ort")[0]) == ["MatMul", "Add", "Softplus"]
