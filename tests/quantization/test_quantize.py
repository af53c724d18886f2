"""Matrices in 8 and 4 bits: which products are rewritten, which are kept and why, and the numbers."""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import ffn_export as fx
from ffn_export.errors import UsageError
from ffn_export.fusion.forms.by_rows.split_hidden import SPLIT_HIDDEN_LAYERS
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.sites import find
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import prepared, quantize, quantize_some
from ffn_export.quantization.result import QuantizationReport

Array = np.ndarray[Any, np.dtype[Any]]
DRAW = np.random.default_rng(0)
# 40 is no multiple of a block of 32: the last block of a column is filled up.
WEIGHTS = {
    "w": (40, 48),
    "v": (48, 40),
    "t": (48, 40),
    "b": (48,),
    "c": (40,),
    "wide": (1, 48),
    "table": (40, 48),
    "stack": (1, 48, 40),
    "widen": (48, 40, 1),
    "narrow": (40, 48, 1),
    "wider": (48, 40, 3),
    "column": (48, 1),
}
ARRAYS = {name: DRAW.standard_normal(shape).astype(np.float32) for name, shape in WEIGHTS.items()}
FEED_FORWARD = "m = MatMul(x, w) a = Add(m, b) h = Relu(a) n = MatMul(h, v) y = Add(n, c)"


def graph(body: str, *, rows: str = "batch,seq", inputs: str = "", dtype: Any = np.float32) -> ir.Model:
    """A model of ``x`` and ``y`` of width 40, with those of the arrays that it reads."""
    name = {np.float32: "float", np.float16: "float16", np.float64: "double"}[dtype]
    text = f'<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]> g ({name}[{rows},40] x{inputs}) '
    parsed = onnx.parser.parse_model(f"{text} => ({name}[{rows},40] y) {{ {body} }}")
    read = set(re.findall(r"\w+", body))
    parsed.graph.initializer.extend(
        onnx.numpy_helper.from_array(array.astype(dtype), each) for each, array in ARRAYS.items() if each in read
    )
    return ir.from_proto(parsed)


def run(model: ir.Model, x: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(None, {"x": x})[0])


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def relative(one: Array, other: Array) -> float:
    return float(np.linalg.norm(one.astype(np.float64) - other) / np.linalg.norm(other.astype(np.float64)))


def rounded(array: Array, bits: int, block: int) -> Array:
    """The nearest that a symmetric grid of this many bits holds, a scale for each block of a column."""
    result = np.empty_like(array)
    for start in range(0, len(array), block):
        part = array[start : start + block]
        largest = np.take_along_axis(part, np.abs(part).argmax(axis=0, keepdims=True), axis=0)
        scale = largest / -(2 ** (bits - 1))
        steps = np.clip(np.round(part / scale), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        result[start : start + block] = steps * scale
    return result


@pytest.mark.parametrize(("bits", "most"), [(8, 0.02), (4, 0.2)])
def test_the_products_of_a_feed_forward(bits: int, most: float) -> None:
    model = graph(FEED_FORWARD)
    quantized, report = quantize(model, QuantizationOptions(bits=bits))
    assert operators(quantized) == ["MatMulNBits", "Add", "Relu", "MatMulNBits", "Add"]
    assert operators(model) == ["MatMul", "Add", "Relu", "MatMul", "Add"]
    assert [weight.name for weight in report.weights] == ["w", "v"]
    assert report.bytes_after < report.bytes_before / 2
    assert not {"w", "v"} & set(quantized.graph.initializers)
    assert all(weight.relative_l2 < most for weight in report.weights)
    x = DRAW.standard_normal((2, 3, 40)).astype(np.float32)
    assert 0 < relative(run(quantized, x), run(model, x)) < most
    assert run(quantized, x[:0]).shape == (0, 3, 40)


@pytest.mark.parametrize("target", ["portable", "ort", "ort-cpu"])
def test_it_is_still_a_feed_forward_and_can_be_fused(target: str) -> None:
    quantized, _ = quantize(graph(FEED_FORWARD.replace("Relu(a)", "Gelu(a)")))
    fused, report = fuse(quantized, target)
    (site,) = [site for site in report.sites if site.kind == "feed_forward"]
    assert (site.d_model, site.d_ff, site.activation) == (40, 48, "gelu")
    x = DRAW.standard_normal((2, 3, 40)).astype(np.float32)
    assert relative(run(fused, x), run(quantized, x)) < 1e-5
    again, report_again = quantize(quantized)
    assert report_again.weights == ()
    assert operators(again) == operators(quantized)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("block", [16, 32])
def test_what_is_stored_is_the_nearest_that_the_grid_holds(bits: int, block: int) -> None:
    options = QuantizationOptions(bits=bits, block=block, accuracy_level=0)
    quantized, report = quantize(graph("m = MatMul(x, w) h = Relu(m) y = MatMul(h, v)"), options)
    x = np.eye(40, dtype=np.float32)[None]
    hidden = np.maximum(rounded(ARRAYS["w"], bits, block), 0)
    expected = hidden @ rounded(ARRAYS["v"], bits, block)
    assert relative(run(quantized, x), expected[None]) < 1e-5
    assert report.weights[0].relative_l2 == pytest.approx(
        relative(rounded(ARRAYS["w"], bits, block), ARRAYS["w"]), rel=1e-3
    )


def test_other_products_are_for_all() -> None:
    body = (
        "p = MatMul(x, table) q = Transpose <perm = [0, 2, 1]> (p) s = MatMul(p, q) r = MatMul(s, p) y = MatMul(r, v)"
    )
    _, report = quantize(graph(body))
    assert report.weights == ()
    quantized, report = quantize(graph(body), QuantizationOptions(all_products=True))
    assert [weight.name for weight in report.weights] == ["table", "v"]
    assert operators(quantized) == ["MatMulNBits", "Transpose", "MatMul", "MatMul", "MatMulNBits"]


def test_a_matrix_of_two_products_is_stored_once() -> None:
    layer = "m{0} = MatMul({1}, w) h{0} = Relu(m{0}) {2} = MatMul(h{0}, v)"
    model = graph(f"{layer.format(1, 'x', 'z')} {layer.format(2, 'z', 'y')}")
    quantized, report = quantize(model)
    assert [len(weight.nodes) for weight in report.weights] == [2, 2]
    assert len(quantized.graph.initializers) == 4
    x = DRAW.standard_normal((1, 300, 40)).astype(np.float32)  # of a few rows, the error of four products is any
    assert relative(run(quantized, x), run(model, x)) < 0.02


def test_a_matrix_that_one_product_reads_turned_is_stored_both_ways() -> None:
    model = graph("m = MatMul(x, w) h = Relu(m) y = Gemm <transB = 1> (h, w)", rows="batch")
    quantized, report = quantize(model)
    assert [(weight.name, weight.shape) for weight in report.weights] == [("w", (40, 48)), ("w", (48, 40))]
    assert report.bytes_before == 4 * 40 * 48  # which is there once
    assert "w" not in quantized.graph.initializers
    x = DRAW.standard_normal((5, 40)).astype(np.float32)
    assert relative(run(quantized, x), run(model, x)) < 0.02


def test_a_matrix_that_is_also_a_table_stays_for_the_table() -> None:
    model = graph(f"{FEED_FORWARD.replace('y = Add(n, c)', 'o = Add(n, c)')} s = ReduceSum(w) y = Add(o, s)")
    quantized, report = quantize(model)
    assert "w" in quantized.graph.initializers
    assert report.bytes_before == 4 * 48 * 40  # that of the other one: this is not saved
    x = DRAW.standard_normal((1, 3, 40)).astype(np.float32)
    assert relative(run(quantized, x), run(model, x)) < 0.02


def test_a_gemm_with_its_bias_and_a_turned_matrix() -> None:
    body = "m = Gemm <transB = 1> (x, t, b) h = Relu(m) y = Gemm(h, v, c)"
    model = graph(body, rows="batch")
    quantized, _ = quantize(model)
    assert operators(quantized) == ["MatMulNBits", "Relu", "MatMulNBits"]
    x = DRAW.standard_normal((5, 40)).astype(np.float32)
    assert relative(run(quantized, x), run(model, x)) < 0.02


@pytest.mark.parametrize(
    "body",
    [
        "m = Gemm(x, w, wide) h = Relu(m) y = MatMul(h, v)",
        "m = Gemm(x, w, b) h = Relu(m) y = Gemm(h, v, x)",  # which is the output of the graph
    ],
)
def test_what_a_gemm_adds_that_is_no_row_is_added_by_a_node_of_its_own(body: str) -> None:
    model = graph(body, rows="batch")
    model.graph.outputs[0].metadata_props["noted"] = "of the output"
    quantized, report = quantize(model)
    assert sorted(operators(quantized)) == ["Add", "MatMulNBits", "MatMulNBits", "Relu"]
    assert report.kept == {}
    assert [value.name for value in quantized.graph.outputs] == ["y"]
    assert quantized.graph.outputs[0].metadata_props["noted"] == "of the output"
    x = DRAW.standard_normal((5, 40)).astype(np.float32)
    assert relative(run(quantized, x), run(model, x)) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "d_ff"), [("bert-ffn", 3072), ("llama-ffn", 2048)])
def test_parts_of_a_hidden_layer_are_quantised_each(preset: str, d_ff: int) -> None:
    model, _ = fuse(fx.export(preset), "ort-cpu", forms=[SPLIT_HIDDEN_LAYERS.name])
    quantized, report = quantize(model)
    assert report.kept == {}
    assert not {"MatMul", "Gemm"} & set(operators(quantized))
    assert [(site.d_ff, site.parts) for site in find(quantized) if site.kind == "feed_forward"] == [(d_ff, 4)]
    x = DRAW.standard_normal((1, 3, 768)).astype(np.float32)
    assert relative(run(quantized, x), run(model, x)) < 0.02


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("m = Gemm <alpha = 0.5> (x, w, b) h = Relu(m) y = MatMul(h, v)", "scales its product"),
        (
            'h = com.microsoft.FusedGemm <activation = "Relu"> (x, w, b) y = MatMul(h, v)',
            "FusedGemm holds its activation",
        ),
    ],
)
def test_what_the_operator_does_not_take_is_kept_with_the_reason(body: str, reason: str) -> None:
    quantized, report = quantize(graph(body, rows="batch"))
    assert [weight.name for weight in report.weights] == ["v"]
    assert report.kept is not None
    assert [reason in why for why in report.kept.values()] == [True]
    assert "MatMulNBits" not in operators(quantized)[:1]


def test_a_matrix_of_no_numbers_is_kept() -> None:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[batch,4] x) => (float[batch,4] y)'
    weights, body = "<float[4,0] w = {}, float[0,4] v = {}>", "{ m = MatMul(x, w) h = Relu(m) y = MatMul(h, v) }"
    empty = onnx.parser.parse_model(f"{text} {weights} {body}")
    _, report = quantize(ir.from_proto(empty))
    assert report.weights == ()
    assert set((report.kept or {}).values()) == {"its matrix has no numbers"}


def test_a_matrix_that_is_computed_from_constants_is_stored_first() -> None:
    model = graph("n = Neg(w) m = MatMul(x, n) h = Relu(m) y = MatMul(h, v)")
    quantized, report = quantize(prepared(model), QuantizationOptions(all_products=True))
    assert [weight.name for weight in report.weights] == ["n", "v"]
    assert report.kept == {}
    x = np.ones((1, 3, 40), np.float32)
    assert relative(run(quantized, x), run(model, x)) < 0.02


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("n = Neg(w) m = MatMul(x, n) o = Sub(w, n) p = MatMul(x, o) q = Add(m, p) y = MatMul(q, v)", ["Neg", "Sub"]),
        ("n = RandomNormalLike(w) m = MatMul(x, n) y = MatMul(m, v)", []),
        ("n = Add(x, x) u = Transpose<perm = [0,2,1]>(n) m = MatMul(n, u) p = MatMul(m, x) y = Add(p, x)", []),
    ],
)
def test_a_product_of_a_computed_matrix_is_named(body: str, named: list[str]) -> None:
    _, report = quantize(graph(body), QuantizationOptions(all_products=True))
    advice = "fold the constants of the model first"
    assert list((report.kept or {}).values()) == [f"its matrix is computed by {each}: {advice}" for each in named]


def test_the_constants_of_ir_version_3_are_no_inputs_that_a_caller_may_override() -> None:
    model = graph(FEED_FORWARD, inputs=", float[40,48] w, float[48,40] v")
    model.ir_version, model.opset_imports[""] = 3, 11
    x = np.ones((1, 3, 40), np.float32)
    quantized, report = quantize(prepared(model))
    assert len(report.weights) == 2
    assert quantized.ir_version == 4
    assert relative(run(quantized, x), run(model, x)) < 0.02
    assert [len(each.graph.inputs) for each in (model, quantized)] == [3, 1]


def test_a_matrix_that_a_caller_may_override_is_kept() -> None:
    _, report = quantize(graph(FEED_FORWARD, inputs=", float[40,48] w"), QuantizationOptions(all_products=True))
    assert [weight.name for weight in report.weights] == ["v"]
    assert report.kept is not None
    assert "a caller may override" in "".join(report.kept.values())


@pytest.mark.parametrize("bits", [8, 4])
def test_half_precision(bits: int) -> None:
    model = graph(FEED_FORWARD, dtype=np.float16)
    quantized, _ = quantize(model, QuantizationOptions(bits=bits, accuracy_level=0))
    x = DRAW.standard_normal((1, 3, 40)).astype(np.float16)
    assert relative(run(quantized, x), run(model, x)) < 0.02 * 16 ** (bits == 4)


def test_a_kernel_that_is_wrong_is_not_written() -> None:
    """In float16 at accuracy level 4 onnxruntime 1.31 leaves the product out of the result."""
    _, report = quantize(graph(FEED_FORWARD, dtype=np.float16))
    assert report.weights == ()
    assert all("accuracy level 0" in why for why in (report.kept or {}).values())
    wrong = graph(FEED_FORWARD, dtype=np.float16)
    model, _ = quantize(wrong, QuantizationOptions(accuracy_level=0))
    for node in model.graph:
        if node.op_type == "MatMulNBits":
            node.attributes["accuracy_level"] = ir.AttrInt64("accuracy_level", 4)
    x = DRAW.standard_normal((1, 3, 40)).astype(np.float16)
    assert relative(run(model, x), run(wrong, x)) > 0.5, "the kernel is right now: let products have it"


def test_nothing_to_quantize_says_each_reason_once() -> None:
    with pytest.raises(UsageError) as refused:
        quantize_some(graph(FEED_FORWARD, dtype=np.float64), QuantizationOptions())
    assert str(refused.value).count("MatMulNBits takes no matrix in double") == 1
    assert "and 1 more: " in str(refused.value)


def test_half_precision_says_what_to_quantize() -> None:
    with pytest.raises(UsageError, match="takes no matrix in float16: quantize the model in float32"):
        quantize_some(graph(FEED_FORWARD, dtype=np.float16), QuantizationOptions(int8=True))


def test_what_hides_the_products_is_named() -> None:
    with pytest.raises(UsageError, match="in few bits already"):
        quantize_some(quantize(graph(FEED_FORWARD))[0], QuantizationOptions())
    outlined, _ = fuse(graph(FEED_FORWARD), "ort-native")
    with pytest.raises(UsageError, match="its products are nodes of native kernels"):
        quantize_some(outlined, QuantizationOptions())


def test_a_dtype_without_a_kernel_is_kept() -> None:
    _, report = quantize(graph(FEED_FORWARD, dtype=np.float64))
    assert report.weights == ()
    assert all("double" in why for why in (report.kept or {}).values())


def test_inside_a_branch() -> None:
    branch = "then_branch = g1 () => (float[batch,seq,40] p) { m = MatMul(x, w) h = Relu(m) p = MatMul(h, v) }"
    other = "else_branch = g2 () => (float[batch,seq,40] q) { q = Identity(x) }"
    body = f"s = ReduceSum <keepdims = 0> (x) z = Greater(s, s) y = If (z) <{branch}, {other}>"
    model = graph(body)
    quantized, report = quantize(model)
    assert [weight.name for weight in report.weights] == ["w", "v"]
    x = DRAW.standard_normal((1, 3, 40)).astype(np.float32)
    assert np.array_equal(run(quantized, x), x)


def test_a_slow_combination_is_warned_of() -> None:
    assert QuantizationOptions().warnings() == ()
    assert QuantizationOptions(bits=4, accuracy_level=0).warnings() == ()
    (warning,) = QuantizationOptions(accuracy_level=0).warnings()
    assert "take accuracy level 4" in warning


@pytest.mark.parametrize("wrong", [{"bits": 3}, {"block": 33}, {"accuracy_level": 2}])
def test_what_the_operator_does_not_know_is_bad_usage(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is not supported: take"):
        QuantizationOptions(**wrong)


def test_the_report_survives_json() -> None:
    _, report = quantize(graph(FEED_FORWARD))
    assert QuantizationReport.from_dict(report.to_dict()) == report


def test_logging_of_the_process_stays_as_it_was() -> None:
    before = list(logging.getLogger().handlers), logging.getLogger().level
    quantize(graph(FEED_FORWARD))
    assert (list(logging.getLogger().handlers), logging.getLogger().level) == before


FUNCTION = """<ir_version: 10, opset_import: ["" : 20, "mine" : 1]>
g (float[batch,40] x) => (float[batch,40] y) { y = mine.twice(x, w, v) }
<domain: "mine", opset_import: ["" : 20]> twice (x, w, v) => (y) { m = MatMul(x, w) h = Relu(m) y = MatMul(h, v) }"""


def test_products_in_functions_are_named() -> None:
    parsed = onnx.parser.parse_model(FUNCTION)
    parsed.graph.initializer.extend(onnx.numpy_helper.from_array(ARRAYS[name], name) for name in "wv")
    model = ir.from_proto(parsed)
    for options in (QuantizationOptions(), QuantizationOptions(int8=True, all_products=True)):
        with pytest.raises(UsageError, match="its products are in functions of the model: `ffn-export fuse` puts"):
            quantize_some(model, options)
        assert len(quantize_some(fuse(model, "ort-cpu")[0], options)[1].weights) == 2


def test_a_model_without_constant_weights_is_not_told_to_take_all() -> None:
    for body in ("y = Relu(x)", "r = Transpose<perm = [1, 0]>(x) s = MatMul(x, r) y = MatMul(s, x)"):
        with pytest.raises(UsageError, match="there is no product with constant weights"):
            quantize_some(graph(body, rows="batch"), QuantizationOptions(int8=True, all_products=True))
    with pytest.raises(UsageError, match="all_products=True takes other products"):
        quantize_some(graph("y = Relu(x)"), QuantizationOptions())
