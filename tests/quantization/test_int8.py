"""Products in 8-bit integers: rows and columns with a scale each, shared inputs, and smoothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from ffn_export.calibration.calibrated import quantize_by_samples
from ffn_export.core import onnx_file
from ffn_export.errors import UsageError
from ffn_export.fusion.pipeline import fuse
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import quantize, quantize_some
from ffn_export.quantization.smoothing import IN_NORM, IN_PRODUCT, OF_ITS_OWN
from tests.quantization.test_quantize import FEED_FORWARD, graph, operators, relative, run
from tests.quantization.test_safe_integers import are_safe

Array = np.ndarray[Any, np.dtype[Any]]
INT8 = QuantizationOptions(int8=True)
ALL = QuantizationOptions(int8=True, all_products=True)
DRAW = np.random.default_rng(0)
X = DRAW.standard_normal((2, 9, 40)).astype(np.float32)
# Some channels are much larger than others, as in real models.
UNEVEN = (X * np.exp(2 * DRAW.standard_normal(40))).astype(np.float32)
SPREAD = ", ".join(f"{each:.3f}" for each in np.exp(2 * DRAW.standard_normal(40)))
NORMED = f"g = Constant <value = float[40] {{{SPREAD}}}> () n = LayerNormalization (x, g, c) "


def integers(model: ir.Model) -> list[Array]:
    values = model.graph.initializers
    return [v.const_value.numpy() for n, v in values.items() if n.endswith("_int8") and v.const_value is not None]


@pytest.mark.parametrize("activation", ["Relu", "Gelu", "Identity"])
def test_a_feed_forward(activation: str) -> None:
    model = graph(FEED_FORWARD.replace("Relu", activation))
    if activation == "Identity":
        quantized, report = quantize(model, ALL)
    else:
        quantized, report = quantize(model, INT8)
    assert [weight.name for weight in report.weights] == ["w", "v"]
    assert operators(quantized).count("MatMulIntegerToFloat") == 2
    assert not {"w", "v"} & set(quantized.graph.initializers)
    assert all(map(are_safe, integers(quantized)))
    assert 1e-4 < relative(run(quantized, X), run(model, X)) < 0.02
    assert report.bytes_after < report.bytes_before / 3


def test_a_row_does_not_depend_on_the_others() -> None:
    quantized, _ = quantize(graph(FEED_FORWARD), INT8)
    x = X.copy()
    x[:, 1:] *= 1000
    assert np.array_equal(run(quantized, x)[:, 0], run(quantized, X)[:, 0])
    # Nor does the relative error depend on the size of a row.
    assert np.array_equal(run(quantized, 2.0**40 * X) / 2.0**40 != 0, run(quantized, X) != 0)


@pytest.mark.parametrize("options", [ALL, QuantizationOptions(all_products=True)])
def test_attention_stays_one_node(options: QuantizationOptions) -> None:
    rows = """sizes = Constant <value_ints = [0, 0, 4, 12]> () merged = Constant <value_ints = [0, 0, 48]> ()
        m = MatMul(x, w) r = Reshape(m, sizes) q = Transpose <perm = [0, 2, 1, 3]> (r)
        k = Transpose <perm = [0, 2, 3, 1]> (r) p = MatMul(q, k) s = Softmax <axis = -1> (p) o = MatMul(s, q)
        e = Transpose <perm = [0, 2, 1, 3]> (o) u = Reshape(e, merged) y = MatMul(u, v)"""
    fused, _ = fuse(graph(rows))
    quantized, _ = quantize(fused, options)
    assert operators(fused) == ["MatMul", "MultiHeadAttention", "MatMul"]
    assert "MultiHeadAttention" in operators(quantized)
    x = X / 10
    assert relative(run(quantized, x), run(fused, x)) < 0.02


def test_rows_of_zeros_are_zeros() -> None:
    model = graph("m = MatMul(x, w) y = MatMul(m, v)")
    quantized, _ = quantize(model, ALL)
    x = X.copy()
    x[0, 0] = 0
    y = run(quantized, x)
    assert (y[0, 0] == 0).all()
    assert np.isfinite(y).all()


def test_products_of_one_input_share_its_rows() -> None:
    model = graph("m = MatMul(x, w) n = MatMul(x, table) s = Add(m, n) y = MatMul(s, v)")
    quantized, _ = quantize(model, ALL)
    assert operators(quantized).count("QuantizeLinear") == 2
    assert operators(quantized).count("MatMulIntegerToFloat") == 3
    assert relative(run(quantized, X), run(model, X)) < 0.02


def test_a_shared_matrix_is_stored_once() -> None:
    model = graph("m = MatMul(x, w) k = MatMul(m, v) l = MatMul(k, w) y = MatMul(l, v)")
    quantized, report = quantize_by_samples(model, ALL, {"x": X})
    assert len(report.weights) == len(integers(quantized)) == 2
    assert {weight.smoothing for weight in report.weights} == {"not smoothed: other products read its matrix"}
    assert relative(run(quantized, X), run(model, X)) < 0.03


@pytest.mark.parametrize(
    "body",
    [
        "m = Gemm(x, w, b) h = Relu(m) y = Gemm(h, t, c)",
        "m = Gemm <transB = 1> (x, t, b) h = Relu(m) y = Gemm <transB = 1> (h, w, c)",
    ],
)
def test_gemm(body: str) -> None:
    model = graph(body, rows="rows")
    quantized, report = quantize_by_samples(model, ALL, {"x": UNEVEN[0]})
    assert len(report.weights) == 2
    assert relative(run(quantized, UNEVEN[0]), run(model, UNEVEN[0])) < 0.02


@pytest.mark.parametrize(
    ("body", "places"),
    [
        (NORMED + "z = MatMul(n, w) y = MatMul(z, v)", [IN_NORM]),
        (NORMED + "m = MatMul(n, w) k = MatMul(m, v) y = Add(k, n)", [OF_ITS_OWN, "not smoothed: no lower error"]),
        (
            "m = MatMul(x, w) a = Add(m, b) u = MatMul(x, table) g = Sigmoid(a) h = Mul(g, u) y = MatMul(h, v)",
            [OF_ITS_OWN, OF_ITS_OWN, IN_PRODUCT],
        ),
        ("m = MatMul(x, w) a = Add(m, b) h = Relu(a) y = MatMul(h, v)", [OF_ITS_OWN, IN_PRODUCT]),
        ("m = MatMul(x, w) h = Gelu(m) y = MatMul(h, v)", [OF_ITS_OWN, "not smoothed: no lower error"]),
    ],
)
def test_smoothing_and_where_it_goes(body: str, places: list[str]) -> None:
    model = graph(body)
    plain, _ = quantize(model, ALL)
    quantized, report = quantize_by_samples(model, ALL, {"x": UNEVEN})
    for weight, place in zip(report.weights, places, strict=False):
        assert weight.smoothing is not None
        assert weight.smoothing.startswith(place)
    truth = run(model, UNEVEN)
    assert relative(run(quantized, UNEVEN), truth) < 0.9 * relative(run(plain, UNEVEN), truth)
    assert relative(run(quantized, UNEVEN), truth) < 0.03


@pytest.mark.parametrize(("before", "lowest_read"), [(NORMED, ["n"]), ("n = Identity(x) ", ["n", "h"])])
def test_after_a_norm_the_lowest_number_of_gelu_is_known(before: str, lowest_read: list[str]) -> None:
    model = graph(before + "z = MatMul(n, w) d = Add(z, b) h = Gelu(d) u = MatMul(h, v) y = Add(u, c)")
    quantized, _ = quantize_by_samples(model, INT8, {"x": X})
    read = [x.name for node in quantized.graph if node.op_type == "ReduceMin" for x in node.inputs[:1] if x is not None]
    assert read == lowest_read
    for size in (1e-3, 1, 1e3):
        x = (size * X).astype(np.float32)
        assert relative(run(quantized, x), run(model, x)) < 0.03


@pytest.mark.parametrize(
    "before",
    [NORMED, "m = MatMul(x, w) u = MatMul(m, v) a = Add(u, c) n = Relu(a)"],
    ids=["of a norm", "of a product"],
)
def test_what_a_branch_reads_is_not_divided_outside(before: str) -> None:
    """There, the factors would be constants of the branch."""
    chosen = "then_branch = t () => (float[batch,seq,48] z) { z = MatMul(n, table) }, "
    chosen += "else_branch = e () => (float[batch,seq,48] z) { z = Identity(b) }"
    model = graph(f"{before} s = ReduceSum <keepdims = 0> (x) d = Equal(s, s) y = If (d) <{chosen}>")
    quantized, report = quantize_by_samples(model, ALL, {"x": UNEVEN})
    onnx.checker.check_model(ir.to_proto(quantized))
    assert report.weights[-1].smoothing not in (IN_NORM, IN_PRODUCT)
    assert relative(run(quantized, UNEVEN), run(model, UNEVEN)) < 0.03


def test_a_function_of_the_model_is_no_activation_by_its_name() -> None:
    model = graph("h = Relu(x) y = MatMul(h, w)")
    model.graph.node(0).domain = "its.own"
    body = onnx.parser.parse_function(
        '<domain: "its.own", opset_import: ["" : 20]> Relu (x) => (y) { y = LeakyRelu <alpha: float = 0.9> (x) }'
    )
    function = ir.serde.deserialize_function(body)
    model.functions[function.identifier()] = function
    model.opset_imports["its.own"] = 1
    quantized, _ = quantize(model, ALL)
    assert relative(run(quantized, X), run(model, X)) < 0.02


def test_an_opset_without_8_bit_activations_is_refused() -> None:
    model = graph("s = Softmax <axis = 1> (x) y = MatMul(s, w)")  # of another meaning from opset 13 on
    model.opset_imports[""] = 9
    with pytest.raises(UsageError, match="opset 9, 8-bit activations need 10"):
        quantize(model, ALL)


def test_small_rows_are_scaled_by_their_own_size() -> None:
    quiet = "k = Constant <value = float {0.0001}> () s = Mul(n, k) "
    model = graph(NORMED + quiet + "z = MatMul(s, w) h = Gelu(z) y = MatMul(h, v)")
    quantized, _ = quantize_by_samples(model, INT8, {"x": X})
    assert relative(run(quantized, X), run(model, X)) < 0.03


def test_large_weights_stay_in_their_file(tmp_path: Any) -> None:
    onnx_file.save(graph(FEED_FORWARD), tmp_path / "m.onnx", external_above=0)
    quantized, _ = quantize_by_samples(onnx_file.load(tmp_path / "m.onnx"), INT8, {"x": X})
    onnx_file.save(quantized, tmp_path / "q.onnx", external_above=0)
    again = onnx_file.load(tmp_path / "q.onnx", in_memory=list(quantized.graph.initializers))
    assert relative(run(quantized, X), run(graph(FEED_FORWARD), X)) < 0.02
    assert len(integers(again)) == 2


def test_what_has_no_kernel_is_kept() -> None:
    for dtype in (np.float16, np.float64):
        _, report = quantize(graph(FEED_FORWARD, dtype=dtype), INT8)
        assert report.weights == ()
        assert all("MatMulIntegerToFloat takes no matrix" in why for why in (report.kept or {}).values())
    with pytest.raises(UsageError, match="in 8-bit integers already"):
        quantize_some(quantize(graph(FEED_FORWARD), INT8)[0], INT8)


def test_options_of_blocks_are_not_its() -> None:
    with pytest.raises(UsageError, match="about weights in blocks"):
        QuantizationOptions(bits=4, int8=True)
    assert INT8.command_line() == ("--int8",)
    assert ALL.command_line() == ("--int8", "--all")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2e12])
@pytest.mark.parametrize("options", [ALL, QuantizationOptions(all_products=True)])
def test_a_matrix_that_is_not_finite_or_huge_is_kept(options: QuantizationOptions, bad: float) -> None:
    model = graph(FEED_FORWARD)
    held = model.graph.initializers["w"].const_value
    assert held is not None
    matrix = held.numpy().copy()
    matrix[3, 5] = bad
    model.graph.initializers["w"].const_value = ir.tensor(matrix, name="w")
    quantized, report = quantize_by_samples(model, options, {"x": X})
    assert [weight.name for weight in report.weights] == ["v"]
    assert list((report.kept or {}).values()) == ["its matrix has NaN, infinity or numbers above 1e12"]
    assert "w" in quantized.graph.initializers


@pytest.mark.parametrize(("size", "smoothed"), [(1e11, True), (1e15, False), (1e25, False)])
def test_rows_of_any_size_are_computed_and_measured_where_their_squares_are_finite(size: float, smoothed: bool) -> None:
    x = UNEVEN / np.abs(UNEVEN).max() * np.float32(size)
    model = graph("m = MatMul(x, w) y = MatMul(m, v)")
    quantized, report = quantize_by_samples(model, ALL, {"x": x})
    assert relative(run(quantized, x), run(model, x)) < 0.05
    assert (report.weights[0].smoothing == OF_ITS_OWN) is smoothed


@pytest.mark.parametrize("shown", [X[:1, :1], X[:1, :2]])
def test_channels_that_no_sample_shows_keep_their_weights(shown: Array) -> None:
    """Behind a Relu more than half of the channels may be 0 on a few samples."""
    model = graph("m = MatMul(x, w) h = Relu(m) y = MatMul(h, v)")
    quantized, _ = quantize_by_samples(model, ALL, {"x": shown})
    for factor in (0.01, 1):
        assert relative(run(quantized, UNEVEN * factor), run(model, UNEVEN * factor)) < 0.05


def test_a_product_of_two_constants_is_divided_once() -> None:
    one = "k = Constant <value = float[40] {" + SPREAD + "}> () l = Mul(k, c) p = MatMul(l, w) q = MatMul(p, v)"
    model = graph(f"{one} y = Add(x, q)")
    model.graph.outputs.append(next(node.outputs[0] for node in model.graph if node.outputs[0].name == "q"))
    model.graph.outputs.reverse()
    quantized, report = quantize_by_samples(model, ALL, {"x": X})
    assert IN_NORM in {weight.smoothing for weight in report.weights}
    assert relative(run(quantized, X), run(model, X)) < 0.02
