"""Feed-forwards as a sum over parts of the hidden layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from executed import executed_kernels
from ffn_export.core import onnx_file
from ffn_export.fusion.forms.by_rows import split_hidden
from ffn_export.fusion.forms.by_rows.row_chunks import ROW_CHUNKS
from ffn_export.fusion.forms.by_rows.split_hidden import PARTS, SPLIT_HIDDEN_LAYERS
from ffn_export.fusion.forms.padded_widths.pad import PADDED_WIDTHS
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion_check.check import fuse_checked
from ffn_export.quantization.quantize import quantize
from ffn_export.runtimes.session_options import SessionSettings
from tests.fusion.feed_forwards import GATED, PACKED, PLAIN, feed_forward
from tests.fusion.graphs import assert_interface_kept, assert_same_function, cast, feeds, operators, run

RULE = SPLIT_HIDDEN_LAYERS.name
FORMS = [RULE]
pytestmark = pytest.mark.usefixtures("small")
WIDTHS = (8, 64)
BACK = ["Shape", "Concat", "Reshape"]


def parts_of(fused: ir.Model) -> list[str]:
    found = operators(fused)
    assert (found[0], found[-3:]) == ("Reshape", BACK)
    return found[1:-3]


@pytest.mark.parametrize(
    ("written", "part"),
    [
        (PLAIN, ["Gemm", "Gelu"]),
        (PLAIN.replace("Gelu", "Relu"), ["Gemm", "Relu"]),
        (GATED, ["MatMul", "MatMul", "Relu", "Mul"]),
        (PACKED, ["MatMul", "Split", "Relu", "Mul"]),
    ],
    ids=["plain", "relu", "gated", "packed"],
)
def test_each_part_is_added_to_those_before_it(written: str, part: list[str]) -> None:
    of = feed_forward(written, widths=WIDTHS)
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    assert parts_of(fused) == [*part * PARTS, *["Gemm"] * PARTS]
    # One site, of the whole width, whatever its nodes are.
    assert [(s.kind, s.status, s.rule, s.d_ff) for s in report.sites] == [("feed_forward", "rewritten", RULE, 64)]
    assert report.rules[RULE] == 1
    onnx.checker.check_model(ir.to_proto(fused), full_check=True)
    assert_interface_kept(of, fused)
    assert_same_function(of, fused)


def test_the_runtime_computes_one_part_after_the_other(tmp_path: Path) -> None:
    fused, _ = fuse(feed_forward(PLAIN, widths=WIDTHS), "ort-cpu", forms=FORMS)
    onnx_file.save(fused, tmp_path / "m.onnx")
    ran = [kernel.operator for kernel in executed_kernels(tmp_path / "m.onnx", SessionSettings(), feeds(fused))]
    assert [each for each in ran if each in ("Gemm", "Gelu")] == ["Gemm", "Gelu", "Gemm"] * PARTS


def test_the_weights_are_divided_and_none_is_there_twice() -> None:
    of = feed_forward(PLAIN, widths=(8, 96))
    fused, _ = fuse(of, "ort-cpu", forms=FORMS)
    stored = [value.const_value for value in fused.graph.initializers.values() if value.dtype == ir.DataType.FLOAT]
    shapes = sorted(tuple(tensor.shape.numpy()) for tensor in stored if tensor is not None)
    # Whole cache lines: 32 units, and none for a fourth part.
    assert shapes == sorted([(8, 32), (32,), (32, 8)] * 3 + [(8,)])


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0), (1, 1), (2, 7)])
@pytest.mark.parametrize("d_ff", [32, 80, 100])
def test_any_number_of_tokens_and_units(sizes: tuple[int, int], d_ff: int) -> None:
    of = feed_forward(PLAIN, widths=(8, d_ff))
    x = feeds(of)["x"][:1, :1].repeat(sizes[0], 0).repeat(sizes[1], 1)
    fused, _ = fuse(of, "ort-cpu", forms=FORMS)
    assert operators(fused).count("Gelu") > 1
    assert_same_function(of, fused, {"x": x})


@pytest.mark.parametrize(("written", "opset"), [(PACKED.replace(", num_outputs = 2", ""), 17), (PACKED, 20)])
def test_a_packed_projection_with_a_bias(written: str, opset: int) -> None:
    with_bias = written.replace("p = MatMul(x, w13)", "q = MatMul(x, w13) p = Add(b13, q)")
    of = feed_forward(with_bias, widths=WIDTHS, opset=opset)
    fused, _ = fuse(of, "ort-cpu", forms=FORMS)
    assert parts_of(fused) == [*["Gemm", "Split", "Relu", "Mul"] * PARTS, *["Gemm"] * PARTS]
    assert_same_function(of, fused)


@pytest.mark.parametrize("shape", ["", "[1]", "[1,1]"])
def test_a_packed_projection_with_one_number_as_its_bias(shape: str) -> None:
    one = f"b = Constant<value = float{shape} {{0.5}}>() q = MatMul(x, w13) p = Add(q, b)"
    of = feed_forward(PACKED.replace("p = MatMul(x, w13)", one), widths=WIDTHS)
    fused, _ = fuse(of, "ort-cpu", forms=FORMS)
    assert parts_of(fused) == [*["Gemm", "Split", "Relu", "Mul"] * PARTS, *["Gemm"] * PARTS]
    assert_same_function(of, fused)


def test_a_matrix_and_products_with_their_biases() -> None:
    body = "h = Gemm<transB = 1>(x, t1, b1) g = Gelu(h) y = Gemm(g, w2, b2)"
    of = feed_forward(body, inputs="float[tokens,8] x", outputs="float[tokens,8] y", widths=WIDTHS)
    fused, _ = fuse(of, "ort-cpu", forms=FORMS)
    assert operators(fused) == [*["Gemm", "Gelu"] * PARTS, *["Gemm"] * PARTS]
    assert_same_function(of, fused)


@pytest.mark.parametrize("forms", [[ROW_CHUNKS.name], [ROW_CHUNKS.name, *FORMS]])
def test_in_chunks_too(forms: list[str]) -> None:
    of = feed_forward(PLAIN, widths=WIDTHS)
    fused, report = fuse(of, "ort-cpu", forms=forms)
    assert [(s.rule, s.d_ff) for s in report.sites] == [(ROW_CHUNKS.name, 64)]
    (loop,) = (node for node in fused.graph if node.op_type == "Loop")
    assert [node.op_type for node in loop.attributes["body"].as_graph()].count("Gelu") == PARTS
    assert_same_function(of, fused)


@pytest.mark.parametrize("d_ff", [64, 80, 1024])  # above 64 it is too large for a constant of a function's body
def test_rows_that_are_no_bias_are_divided(d_ff: int) -> None:
    of = feed_forward(PLAIN.replace("g = Gelu(a)", "k = Gelu(a) g = Mul(k, scale1)"), widths=(8, d_ff))
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    assert report.rules == {RULE: 1}
    assert_same_function(of, fused)


def test_padded_widths_leave_parts_alone() -> None:
    of = feed_forward(PLAIN, widths=(8, 4096))
    fused, report = fuse(of, "ort-cpu", forms=[PADDED_WIDTHS.name, *FORMS])
    assert report.rules == {RULE: 1}
    assert_same_function(of, fused)


@pytest.mark.parametrize("target", ["portable", "ort", "ort-cpu"])
@pytest.mark.parametrize("written", [PLAIN, PACKED], ids=["plain", "packed"])
def test_fused_again_it_stays_and_is_one_site(written: str, target: str) -> None:
    fused, _ = fuse(feed_forward(written, widths=WIDTHS), "ort-cpu", forms=FORMS)
    again, report = fuse(fused, target, forms=FORMS if target == "ort-cpu" else None)
    assert operators(again) == operators(fused)
    assert [(site.status, site.d_ff) for site in report.sites] == [("already optimal", 64)]


def test_two_feed_forwards_in_a_row_and_one_added_to_another() -> None:
    second = "h2 = MatMul(y1, t2) g2 = Gelu(h2) y = MatMul(g2, t1)"
    of = feed_forward(f"{PLAIN.replace('y = Add', 'y1 = Add')} {second}", widths=WIDTHS)
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    assert [site.d_ff for site in report.sites] == [64, 64]
    assert_same_function(of, fused)


@pytest.mark.parametrize(
    ("written", "widths", "reason"),
    [
        (PLAIN, (8, 16), "a hidden layer of 16 units is too small"),
        (f"{PLAIN} z = MatMul(x, w1)", (8, 64), "a weight of it is read elsewhere too"),
    ],
)
def test_what_is_whole_says_why(written: str, widths: tuple[int, int], reason: str) -> None:
    z = f", float[batch,seq,{widths[1]}] z" if "z =" in written else ""
    of = feed_forward(written, widths=widths, outputs=f"float[batch,seq,8] y{z}")
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    assert operators(fused).count("Gelu") == 1
    assert reason in str(report.sites[0].reason)
    assert_same_function(of, fused)


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE])
def test_a_hidden_layer_that_is_narrow_or_of_another_dtype_is_not_meant(
    dtype: ir.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_hidden, "WIDE", 128)
    of = cast(feed_forward(PLAIN, widths=(8, 64 if dtype == ir.DataType.FLOAT else 128)), dtype)
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    assert operators(fused) == operators(of)
    assert report.sites[0].reason is None


def test_quantized_weights_stay_whole() -> None:
    few_bits, _ = quantize(feed_forward(PLAIN, widths=WIDTHS))
    assert operators(fuse(few_bits, "ort-cpu", forms=FORMS)[0]) == operators(few_bits)


def test_a_row_that_is_not_finite_stays_in_its_row() -> None:
    of = feed_forward(PLAIN, widths=WIDTHS)
    x = np.random.default_rng(0).standard_normal((1, 5, 8)).astype(np.float32)
    x[0, 4] = np.nan
    (expected,), (actual,) = run(of, {"x": x}), run(fuse(of, "ort-cpu", forms=FORMS)[0], {"x": x})
    assert np.isnan(actual[0, 4]).all()
    np.testing.assert_allclose(actual[0, :4], expected[0, :4], rtol=1e-5, atol=1e-6)


def test_a_feed_forward_that_is_one_node_is_whole() -> None:
    of = feed_forward(PLAIN, widths=WIDTHS)
    fused, _ = fuse_checked(of, "ort-native")
    assert operators(fused) == ["FeedForward"]
    assert_same_function(of, fused)


def test_it_is_compared_after_fusing_and_undone_where_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = split_hidden._of_units
    monkeypatch.setattr(split_hidden, "_of_units", lambda tensor, along, units: 2 * whole(tensor, along, units))
    of = feed_forward(PLAIN, widths=WIDTHS)
    fused, report = fuse_checked(of, "ort-cpu", forms=FORMS)
    assert [site.status for site in report.sites] == ["rolled back"]
    assert_same_function(of, fused)
