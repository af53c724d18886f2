"""Feed-forwards in a loop over chunks of rows."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from ffn_export.errors import UsageError
from ffn_export.fusion.forms.by_rows.row_chunks import ROW_CHUNKS
from ffn_export.fusion.pipeline import fuse
from ffn_export.quantization.quantize import quantize
from ffn_export.runtimes.ort_session import make_session
from ffn_export.runtimes.session_options import SessionSettings
from tests.fusion.feed_forwards import GATED, PACKED, PLAIN, feed_forward
from tests.fusion.graphs import assert_interface_kept, assert_same_function, operators, run

FORMS = [ROW_CHUNKS.name]
pytestmark = pytest.mark.usefixtures("small")


def body_of(fused: ir.Model) -> ir.Graph:
    loop = next(node for node in fused.graph if node.op_type == "Loop")
    return loop.attributes["body"].as_graph()


@pytest.mark.parametrize("written", [PLAIN, GATED, PACKED], ids=["plain", "gated", "packed"])
def test_the_feed_forward_is_computed_in_the_loop(written: str) -> None:
    of = feed_forward(written)
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    inside = [node.op_type for node in body_of(fused) if node.op_type != "Constant"]
    assert inside[inside.index("Reshape") + 1 :] == [*operators(of), "Identity"]
    assert set(inside[: inside.index("Reshape")]) == {"Sub", "Add", "Div", "Mul", "Min", "Slice", "Concat"}
    assert not {"MatMul", "Gelu", "Relu"} & set(operators(fused))
    assert body_of(fused).initializers == {}
    assert [(s.kind, s.status, s.rule) for s in report.sites] == [("feed_forward", "rewritten", "row-chunks")]
    onnx.checker.check_model(ir.to_proto(fused), full_check=True)
    assert_interface_kept(of, fused)
    assert_same_function(of, fused)


@pytest.mark.parametrize("tokens", [0, 1, 3, 4, 7, 8, 9, 11, 12, 23, 24, 25, 99, 100, 103])
def test_any_number_of_tokens_with_its_remainder(tokens: int) -> None:
    of = feed_forward(PLAIN)
    x = np.random.default_rng(tokens).standard_normal((1, tokens, 8)).astype(np.float32)
    assert_same_function(of, fuse(of, "ort-cpu", forms=FORMS)[0], {"x": x})


@pytest.mark.parametrize(
    ("tokens", "chunks", "size"), [(7, 1, 7), (8, 2, 4), (9, 2, 5), (13, 3, 5), (100, 25, 4), (103, 25, 5)]
)
def test_chunks_are_equal_and_few(tokens: int, chunks: int, size: int) -> None:
    fused, _ = fuse(feed_forward(PLAIN), "ort-cpu", forms=FORMS)
    together = next(node for node in fused.graph if node.op_type == "Loop").outputs[0]
    together.dtype, together.shape = ir.DataType.FLOAT, None
    fused.graph.outputs.append(together)
    _, stack = run(fused, {"x": np.zeros((1, tokens, 8), np.float32)})
    assert stack.shape == (chunks, size, 8)


def test_a_row_that_is_not_finite_stays_in_its_row() -> None:
    of = feed_forward(PLAIN)
    x = np.random.default_rng(0).standard_normal((1, 9, 8)).astype(np.float32)
    x[0, 8] = np.nan
    (expected,), (actual,) = run(of, {"x": x}), run(fuse(of, "ort-cpu", forms=FORMS)[0], {"x": x})
    assert np.isnan(actual[0, 8]).all()
    np.testing.assert_allclose(actual[0, :8], expected[0, :8], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (PLAIN.replace("g = Gelu(a)", "t = Transpose<perm = [1, 0, 2]>(a) g = Gelu(t)"), "Transpose"),
        (f"{PLAIN} z = Neg(a)", "read"),
        # The result has other tokens than the input, or one number for each of them.
        (
            PLAIN.replace("g = Gelu(a)", "s = Constant<value_ints = [-1, 2, 16]>() r = Reshape(a, s) g = Gelu(r)"),
            "the tokens of 'y' are not known to be those of 'x'",
        ),
        (
            "h = MatMul(x, w1) p = Constant<value = float[2,1] {1, 2}>() a = Add(h, p) g = Gelu(a) y = MatMul(g, w2)",
            "'p' is not known to be a number or a row, the same for every token",
        ),
        (
            f"h = MatMul(x, w1) p = Constant<value = float[1,1,128] {{{', '.join(['1'] * 128)}}}>() a = Add(h, p) "
            "g = Gelu(a) y = MatMul(g, w2)",
            "'p' is not known to be a number or a row, the same for every token",
        ),
    ],
)
def test_what_is_left_says_why(written: str, reason: str) -> None:
    z = ", float[batch,seq,16] z" if "z =" in written else ""
    widths = (8, 128 if "128" in written else 16)
    of = feed_forward(
        written, outputs=f"float[{'rows,2' if 'Reshape' in written else 'batch,seq'},8] y{z}", widths=widths
    )
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    assert "Loop" not in operators(fused)
    assert [reason in str(site.reason) for site in report.sites] == [True]


def test_quantized_weights_are_left() -> None:
    few_bits, _ = quantize(feed_forward(PLAIN))
    fused, report = fuse(few_bits, "ort-cpu", forms=FORMS)
    assert operators(fused) == operators(few_bits)
    assert [str(site.reason).partition("without row-chunks: ")[2] for site in report.sites] == [
        "its weights are quantized"
    ]


def test_an_opset_that_is_too_low() -> None:
    written = PLAIN.replace("Gelu", "Relu")
    fused, report = fuse(feed_forward(written, opset=14), "ort-cpu", forms=FORMS)
    assert "Loop" not in operators(fused)
    assert "needs opset 15" in str(report.sites[0].reason)
    old = feed_forward(written, opset=15)
    fused, _ = fuse(old, "ort-cpu", forms=FORMS)
    assert "Loop" in operators(fused)
    assert fused.opset_imports[""] == 15
    assert_same_function(old, fused)


def test_targets_without_chunks() -> None:
    with pytest.raises(UsageError, match="'row-chunks' is no optional form of portable; it offers none"):
        fuse(feed_forward(PLAIN), "portable", forms=FORMS)


@pytest.mark.parametrize("tokens", [0, 3, 9])
def test_where_sizes_are_fixed_the_runtime_folds_what_they_decide(tokens: int) -> None:
    sizes = f"float[1,{tokens},8]"
    of = feed_forward(PLAIN, inputs=f"{sizes} x", outputs=f"{sizes} y")
    fused, _ = fuse(of, "ort-cpu", forms=FORMS)
    x = np.random.default_rng(tokens).standard_normal((1, tokens, 8)).astype(np.float32)
    session = make_session(ir.to_proto(fused).SerializeToString(), SessionSettings("all", {}), threads=1)
    (expected,), (actual,) = run(of, {"x": x}), session.run(None, {"x": x})
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
