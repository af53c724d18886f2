"""Valid graphs that rules must leave as they are, or read for what they are: each once came out wrong."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from ffn_export.fusion.constants import evaluate
from ffn_export.fusion.forms.by_rows.row_chunks import ROW_CHUNKS
from ffn_export.fusion.functions.outline import outlined
from ffn_export.fusion.pipeline import fuse, rewrite
from tests.fusion.feed_forwards import feed_forward
from tests.fusion.graphs import assert_interface_kept, assert_same_function, model, operators

TWO = "float[2,3,8] x, float[2,3,8] s"
Y = "float[2,3,8] y"


def valid(fused: ir.Model) -> ir.Model:
    onnx.checker.check_model(ir.to_proto(fused), full_check=True)
    return fused


@pytest.mark.parametrize("rows", ["t, g", "t, one, g"])
def test_a_norm_whose_scale_is_computed_of_its_own_sum(rows: str) -> None:
    of = model(
        f"t = Add(x, s) g = ReduceMax<keepdims = 0>(t, axes) y = LayerNormalization({rows})",
        "int64[2] axes = {0, 1}, float[8] one = {1,1,1,1,1,1,1,1}",
        inputs=TWO,
        outputs=Y,
        opset=18,
    )
    fused, report = fuse(of, "ort")
    assert "SkipLayerNormalization" not in operators(valid(fused))
    assert "is computed, and the sum is read elsewhere" in str(report.sites[-1].reason)
    assert_same_function(of, fused)


def test_a_norm_whose_scale_is_an_expression_of_constants_keeps_its_sum_in_one_node() -> None:
    of = model(
        "t = Add(x, s) g = Add(w, one) y = LayerNormalization(t, g)",
        "float[8] w = {1,2,3,4,5,6,7,8}, float one = {1}",
        inputs=TWO,
        outputs=f"{Y}, float[2,3,8] t",
        opset=18,
    )
    fused, _ = fuse(of, "ort")
    assert "SkipLayerNormalization" in operators(fused)
    assert_same_function(of, fused)


def test_a_half_that_ends_where_a_shape_says() -> None:
    of = feed_forward(
        "h = MatMul(x, w13) e = Shape<start = 2, end = 3>(h) n = Constant<value_ints = [-1]>() "
        "z = Constant<value_ints = [0]>() m = Constant<value_ints = [16]>() "
        "g = Slice(h, z, m, n) u = Slice(h, m, e, n) r = Gelu(g) p = Mul(r, u) y = MatMul(p, w2)"
    )
    fused, report = fuse(of, "ort-cpu", forms=[ROW_CHUNKS.name])
    assert operators(fused).count("Slice") == 2
    assert any("cuts is computed" in str(site.reason) for site in report.sites)
    assert_same_function(of, fused)


def test_a_function_of_the_model_s_own_is_not_called_by_what_is_written() -> None:
    of = model(
        "c = Mul(x, x) d = Mul(c, x) e = Mul(d, k) f = Add(x, e) h = Mul(f, r) t = Tanh(h) v = Add(t, one) "
        "w = Mul(x, v) a = Mul(w, half) y = com.microsoft.FastGelu(a, x) z = GridSample(image, grid)",
        "float k = {0.044715}, float r = {0.7978845608}, float one = {1}, float half = {0.5}",
        inputs="float[2,8] x, float[1,1,2,2] image, float[1,1,1,2] grid",  # GridSample keeps the graph below opset 20
        outputs="float[2,8] y, float[1,1,1,1] z",
        opset=18,
        domains=("com.microsoft",),
        functions='<domain: "com.microsoft", opset_import: ["" : 18]> FastGelu (a, b) => (c) { c = Add(a, b) }',
    )
    fused, _ = fuse(of, "ort")
    assert operators(fused).count("FastGelu") == 1
    assert "Tanh" in operators(fused)


@pytest.mark.parametrize(
    ("between", "target"),
    [
        ("s = Sigmoid(h) g = Mul(s, two)", "portable"),
        ("b = Add(h, b1) r = Relu(b) g = Add(r, b1)", "ort"),
        ("i = Cast<to = 7>(h) f = Cast<to = 1>(i) g = Relu(f)", "portable"),
    ],
    ids=["a scaled sigmoid", "a row after the activation", "a truncation"],
)
def test_what_is_no_known_feed_forward_is_no_node_of_native_kernels(between: str, target: str) -> None:
    of = feed_forward(f"h = MatMul(x, w1) two = Constant<value_float = 2.0>() {between} y = MatMul(g, w2)")
    fused, _ = fuse(of, target)
    for made in (outlined(fused).model, fuse(of, "ort-native")[0]):
        assert "FeedForward" not in operators(made)
        assert_same_function(of, made)


def test_a_hard_swish_in_bfloat16_is_of_an_opset_that_has_it() -> None:
    of = model(
        "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
        "bfloat16 three = {3}, bfloat16 zero = {0}, bfloat16 six = {6}",
        inputs="bfloat16[2,8] x",
        outputs="bfloat16[2,8] y",
        opset=18,
    )
    fused, _ = fuse(of, "portable")
    valid(fused)
    assert "HardSwish" not in operators(fused) or fused.opset_imports[""] >= 22


def test_a_large_mask_of_constants_is_not_computed_to_see_what_it_is() -> None:
    of = model(
        "m = Expand(zero, sizes) y = Add(x, m)",
        "float zero = {0}, int64[2] sizes = {100000, 100000}",
        inputs="float[100000,100000] x",
        outputs="float[100000,100000] y",
    )
    mask = next(node for node in of.graph if node.op_type == "Expand").outputs[0]
    assert evaluate(mask) is None


def test_an_axis_that_has_the_name_of_an_unnamed_one() -> None:
    of = model(
        "t = Add(x, s) y = LayerNormalization(t, g)",
        "float[8] g = {1,1,1,1,1,1,1,1}",
        inputs="float[unnamed_axis_0,8] x, float[other,8] s",
        outputs="float[unnamed_axis_0,8] y",
        opset=18,
    )
    of.graph.inputs[1].shape = ir.Shape([None, 8])
    fused, _ = fuse(of, "ort")
    assert "SkipLayerNormalization" not in operators(fused)
    assert_interface_kept(of, fused)


def test_powers_of_powers_take_no_longer_than_there_are_nodes() -> None:
    squares = " ".join(f"p{n + 1} = Pow(p{n}, two)" for n in range(14))
    of = model(
        f"p0 = Add(x, one) {squares} t = Tanh(p14) y = Mul(x, t)",
        "float one = {1}, float two = {2}",
        inputs="float[2,8] x",
        outputs="float[2,8] y",
    )
    fused, _ = fuse(of, "portable")  # which took most of a day
    assert operators(fused) == operators(of)


def test_text_among_the_initializers_stays_text() -> None:
    of = model(
        "q = Squeeze(words, zero) y = Gather(q, i)", "int64[1] zero = {0}", inputs="int64[n] i", outputs="string[n] y"
    )
    words = ir.StringTensor(np.array([[b"a", b"b"]], dtype=object), name="words", shape=ir.Shape([1, 2]))
    value = ir.Value(name="words", type=ir.TensorType(ir.DataType.STRING), shape=ir.Shape([1, 2]), const_value=words)
    of.graph.register_initializer(value)
    next(node for node in of.graph if node.op_type == "Squeeze").replace_input_with(0, value)
    fused, _ = fuse(of, "portable")
    assert ir.to_proto(fused).graph.initializer


LAYER_NORM = (
    "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) q = Pow(d, two) v = ReduceMean<axes = [-1]>(q) a = Add(v, eps) "
    "r = Sqrt(a) n = Div(d, r) g = Mul(n, w) y = Add(g, b)"
)
ROWS = "float[8] w = {1,2,3,4,5,6,7,8}, float[8] b = {8,7,6,5,4,3,2,1}"


@pytest.mark.parametrize("opset", [9, 10, 11])
@pytest.mark.parametrize("ir_version", [3, 4])
def test_a_norm_of_an_old_exporter_which_writes_numbers_as_nodes(opset: int, ir_version: int) -> None:
    """Of an IR version of 3, every initializer is an input; it is 4 that lets a rule write others."""
    of = model(
        "two = Constant<value = float {2}>() eps = Constant<value = float {1e-5}>() "
        "w = Constant<value = float[8] {1,2,3,4,5,6,7,8}>() b = Constant<value = float[8] {8,7,6,5,4,3,2,1}>() "
        + LAYER_NORM,
        inputs="float[2,3,8] x",
        outputs=Y,
        opset=opset,
    )
    of.ir_version = ir_version
    fused, report = fuse(of, "ort-cpu")
    assert report.rules["layer-norm"] == 1, [site.reason for site in report.sites]
    assert [name for name in operators(valid(fused)) if name != "Constant"] == ["LayerNormalization"]
    assert_same_function(of, fused)


def test_what_an_old_opset_says_otherwise_stays_below_a_norm_of_the_runtime_s() -> None:
    """ONNX Runtime's optimiser leaves the norm in a graph of any opset; taking its bias in raises none."""
    of = model(
        "n = LayerNormalization(x, w) a = Add(n, b) y = Softmax(a)",
        ROWS,
        inputs="float[2,3,8] x",
        outputs=Y,
        opset=11,
    )
    fused, _ = fuse(of, "ort-cpu")
    softmax = next(node for node in fused.graph if node.op_type == "Softmax")
    assert fused.opset_imports[""] == 11
    assert "axis" not in softmax.attributes


def test_a_norm_of_half_precision_whose_difference_is_widened() -> None:
    of = model(
        "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) c = Cast<to = 1>(d) q = Pow(c, two) "
        "v = ReduceMean<axes = [-1]>(q) a = Add(v, eps) r = Sqrt(a) n = Div(c, r) "
        "h = Cast<to = 10>(n) g = Mul(h, w) y = Add(g, b)",
        "float two = {2}, float eps = {1e-5}, " + ROWS.replace("float[8]", "float16[8]"),
        inputs="float16[2,3,8] x",
        outputs="float16[2,3,8] y",
        opset=14,
    )
    fused, report = fuse(of, "ort-cpu")
    assert operators(valid(fused)) == ["LayerNormalization"]
    assert {site.status for site in report.sites} == {"rewritten"}
    assert_same_function(of, fused)


def test_gelu_by_the_complement_of_erf() -> None:
    """``0.5 * x * erfc(-x / sqrt(2))``, as JAX has it."""
    of = model(
        "k = Neg(x) u = Mul(k, r) e = Erf(u) a = Sub(one, e) h = Mul(x, half) y = Mul(h, a)",
        "float r = {0.70710678}, float one = {1}, float half = {0.5}",
    )
    fused, _ = fuse(of, "ort-cpu")
    assert operators(fused) == ["Gelu"]
    assert_same_function(of, fused)


def test_what_is_excluded_is_no_second_output_of_a_node_either() -> None:
    of = model("t = Add(x, s) n = LayerNormalization(t, w, b) y = Add(t, n)", ROWS, inputs=TWO, outputs=Y)
    assert "SkipLayerNormalization" in operators(rewrite(of, "ort").model)
    assert operators(rewrite(of, "ort", excluded={"t"}).model) == ["Add", "LayerNormalization", "Add"]


def test_numbers_that_only_an_annotation_names() -> None:
    of = ir.to_proto(model("y = Relu(x)", "float[1] scale = {0.5}"))
    of.graph.quantization_annotation.add(tensor_name="x").quant_parameter_tensor_names.add(
        key="SCALE_TENSOR", value="scale"
    )
    fused = ir.to_proto(fuse(ir.from_proto(of), "ort-cpu")[0])
    assert [initializer.name for initializer in fused.graph.initializer] == ["scale"]
    assert fused.graph.quantization_annotation == of.graph.quantization_annotation
