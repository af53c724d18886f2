"""Feed-forwards whose rows are padded where they lie a multiple of 4096 bytes apart."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from ffn_export.core import onnx_file
from ffn_export.fusion.forms.by_rows.row_chunks import ROW_CHUNKS
from ffn_export.fusion.forms.padded_widths.remove import remove
from ffn_export.fusion.forms.padded_widths.units import RULE as PADDED
from ffn_export.fusion.forms.padded_widths.units import UNITS
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.report import FusionReport
from tests.fusion.feed_forwards import GATED, PACKED, PLAIN, feed_forward
from tests.fusion.graphs import assert_interface_kept, assert_same_function, model, operators, run

FORMS = [PADDED]
WIDE = (8, 1024)
WIDE_INPUT = (1024, 16)
BOTH = (1024, 1024)


def made(body: str, widths: tuple[int, int], *, opset: int = 20, outputs: str | None = None) -> ir.Model:
    x, y = (f"float[batch,seq,{widths[0]}] {name}" for name in "xy")
    return feed_forward(body, inputs=x, outputs=outputs or y, widths=widths, opset=opset)


def padded(of: ir.Model, forms: Collection[str] = FORMS) -> tuple[ir.Model, FusionReport]:
    fused, report = fuse(of, "ort-cpu", forms=forms)
    onnx.checker.check_model(ir.to_proto(fused), full_check=True)
    assert_interface_kept(of, fused)
    assert_same_function(of, fused)
    return fused, report


def weights(of: ir.Model) -> dict[str, tuple[int, ...]]:
    matrices = ((str(v.name), v.const_value) for v in of.graph.initializers.values())
    return {n: tuple(each.shape.numpy()) for n, each in matrices if each is not None and len(each.shape) == 2}


GELU_BIASED = "h = Gemm<transB = 1>(r, t1, b1) g = Relu(h) o = Gemm<transB = 1>(g, t2, b2)"
ROWS = f"s = Constant<value_ints = [-1, 8]>() r = Reshape(x, s) {GELU_BIASED} t = Shape(x) y = Reshape(o, t)"
PACKED_BIASED = PACKED.replace(
    "h, u = Split<axis = -1, num_outputs = 2>(p)", "a = Add(p, b13) h, u = Split<axis = -1, num_outputs = 2>(a)"
)
NAMED_HALVES = PACKED.replace(
    "h, u = Split<axis = -1, num_outputs = 2>(p)",
    "z = Constant<value_ints = [1024, 1024]>() h, u = Split<axis = -1>(p, z)",
)
CHAIN = "h = MatMul(x, w1) g = Gelu(h) o = MatMul(g, w2) a = Add(o, b2) r = Relu(a) y = MatMul(r, t2)"
SCALED = (
    "h = MatMul(x, w1) c = Constant<value = float {2}>() a = Mul(h, c) d = Mul(a, b1) g = Sigmoid(d) y = MatMul(g, w2)"
)
# The unit that is added is sigmoid(0) = 0.5 if it were zeros, so it must not be those.
NO_ZERO_AT_ZERO = "h = MatMul(x, w1) g = Sigmoid(h) y = MatMul(g, w2)"


@pytest.mark.parametrize("body", [PLAIN, GATED, PACKED, PACKED_BIASED, NAMED_HALVES, ROWS, SCALED, NO_ZERO_AT_ZERO])
def test_the_hidden_layer_is_longer_by_a_cache_line(body: str) -> None:
    of = made(body, WIDE)
    fused, report = padded(of)
    assert operators(fused) == operators(of)
    grown = {size for shape in weights(fused).values() for size in shape} - {WIDE[0]}
    assert grown <= {WIDE[1] + UNITS, 2 * (WIDE[1] + UNITS)}
    (site,) = report.sites
    assert (site.status, site.rule) == ("kept" if body is SCALED else "rewritten", PADDED)  # a decomposed activation
    assert (site.d_model, site.d_ff) == WIDE


@pytest.mark.parametrize("body", [PLAIN, GATED, PACKED])
def test_an_input_is_padded_once_and_before_the_first_product(body: str) -> None:
    fused, report = padded(made(body, WIDE_INPUT))
    assert operators(fused) == ["Pad", *operators(made(body, WIDE_INPUT))]
    firsts = [shape for name, shape in weights(fused).items() if "w2" not in name]
    assert {shape[0] for shape in firsts} == {WIDE_INPUT[0] + UNITS}
    assert [(s.d_model, s.d_ff) for s in report.sites] == [WIDE_INPUT]


@pytest.mark.slow
def test_both_widths_and_an_old_opset() -> None:
    for opset in (13, 20):
        fused, report = padded(made(PLAIN.replace("Gelu", "Relu"), BOTH, opset=opset))
        assert operators(fused) == ["Pad", "MatMul", "Add", "Relu", "MatMul", "Add"]
        assert set(weights(fused).values()) == {(1040, 1040), (1040, 1024)}
        assert fused.opset_imports[""] == opset
        assert report.rules == {PADDED: 1}


@pytest.mark.slow
@pytest.mark.parametrize("widths", [(8, 1000), (8, 512), (8, 1040), (768, 2560)])
def test_widths_that_spread_over_the_sets_are_left(widths: tuple[int, int]) -> None:
    fused, report = padded(made(PLAIN, widths))
    assert operators(fused) == operators(made(PLAIN, widths))
    assert report.rules == {}
    assert weights(fused) == weights(made(PLAIN, widths))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e38])
@pytest.mark.parametrize("widths", [WIDE, BOTH])
def test_what_is_not_finite_comes_out_as_it_did(value: float, widths: tuple[int, int]) -> None:
    """Zeros in the place of the copied units would make NaN of an infinity, which times 0 is none."""
    of = made("h = MatMul(x, w1) g = Relu(h) y = MatMul(g, w2)", widths)
    for weight in of.graph.initializers.values():  # of one sign: an infinity stays one
        assert weight.const_value is not None
        weight.const_value = ir.tensor(np.abs(weight.const_value.numpy()), name=weight.name)
    x = np.ones((1, 3, widths[0]), np.float32)
    x[0, 1, 2] = value
    (expected,), (actual,) = run(of, {"x": x}), run(padded(of)[0], {"x": x})
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    assert np.isfinite(actual[0, 0]).all()


@pytest.mark.parametrize(
    ("body", "outputs", "reason"),
    [
        (f"{PLAIN} z = Neg(g)", "float[batch,seq,1024] z", "'g' is read elsewhere too"),
        (
            PLAIN.replace("y = Add(o, b2)", "y = Add(o, b2) z = Identity(a)"),
            "float[batch,seq,1024] z",
            "read elsewhere",
        ),
        (f"{PLAIN} z = MatMul(x, w1)", "float[batch,seq,1024] z", "a weight of it is read elsewhere too"),
        (
            "h = MatMul(x, w1) s = Constant<value_ints = [0, 0, -1]>() r = Reshape(h, s) g = Relu(r) y = MatMul(g, w2)",
            "",
            "moves the units",
        ),
    ],
)
def test_what_is_left_says_why(body: str, outputs: str, reason: str) -> None:
    y = "float[batch,seq,8] y"
    of = made(body, WIDE, outputs=f"{y}, {outputs}" if outputs else y)
    fused, report = padded(of)
    assert weights(fused) == weights(of)
    (site,) = report.sites
    assert reason in str(site.reason).partition("without padded-widths: ")[2]


def test_a_weight_that_a_caller_may_give_is_left() -> None:
    of = made(PLAIN, WIDE)
    of.graph.inputs.append(of.graph.initializers["w2"])
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    assert weights(fused) == weights(of)
    assert PADDED not in report.rules


def test_layers_that_share_their_weights_share_the_padded_ones() -> None:
    again = PLAIN.replace("(x,", "(y,").replace("h =", "h2 =").replace("(h,", "(h2,").replace("a =", "a2 =")
    again = again.replace("(a)", "(a2)").replace("g =", "g2 =").replace("(g,", "(g2,").replace("o =", "o2 =")
    again = again.replace("Add(o,", "Add(o2,").replace("y =", "z =")
    of = made(f"{PLAIN} {again}", WIDE, outputs="float[batch,seq,8] z")
    fused, report = padded(of)
    assert sorted(weights(fused).values()) == [(8, 1040), (1040, 8)]
    assert report.rules == {PADDED: 2}


@pytest.mark.slow
@pytest.mark.parametrize("widths", [BOTH, WIDE_INPUT])
def test_a_chain_of_three_products_is_two_feed_forwards(widths: tuple[int, int], tmp_path: Path) -> None:
    """The second one is the second of the first feed-forward and the first of the second."""
    of = made(CHAIN, widths, outputs=f"float[batch,seq,{widths[1]}] y")
    fused, report = padded(of)
    middle = [node for node in fused.graph if node.op_type == "MatMul"][1].inputs[1]
    assert middle is not None
    assert middle.shape is not None
    assert list(middle.shape) == ([1040, 1040] if widths == BOTH else [16, 1040])
    assert operators(fused).count("Pad") == 1
    assert report.rules == {PADDED: 2}
    onnx_file.save(fused, tmp_path / "padded.onnx")
    again = onnx_file.load(tmp_path / "padded.onnx")
    assert remove(again)
    assert weights(again) == weights(of)
    assert_same_function(of, again)


def test_half_precision_is_left() -> None:
    sizes = "float16[n,8] x, float16[8,2048] w, float16[2048,8] v"
    of = model("h = MatMul(x, w) g = Relu(h) y = MatMul(g, v)", inputs=sizes, outputs="float16[n,8] y")
    for name in ("w", "v"):
        value = next(v for v in of.graph.inputs if v.name == name)
        of.graph.inputs.remove(value)
        assert value.shape is not None
        value.const_value = ir.tensor(np.ones(value.shape.numpy(), np.float16), name=name)
        of.graph.register_initializer(value)
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    assert weights(fused) == weights(of)
    assert report.rules == {}


@pytest.mark.slow
def test_in_row_chunks() -> None:
    fused, report = padded(made(PLAIN, BOTH), [PADDED, ROW_CHUNKS.name])
    body = next(node for node in fused.graph if node.op_type == "Loop").attributes["body"].as_graph()
    assert [node.op_type for node in body][-7:-1] == ["Pad", "MatMul", "Add", "Gelu", "MatMul", "Add"]
    assert [(site.kind, site.d_ff) for site in report.sites] == [("feed_forward", 1024)]


@pytest.mark.slow
def test_in_row_chunks_a_split_by_sizes_is_one_by_number() -> None:
    fused, _ = padded(made(NAMED_HALVES, BOTH), [PADDED, ROW_CHUNKS.name])
    body = next(node for node in fused.graph if node.op_type == "Loop").attributes["body"].as_graph()
    assert [node.attributes["num_outputs"].value for node in body if node.op_type == "Split"] == [2]


@pytest.mark.slow
def test_the_model_that_is_given_keeps_its_weights_and_shapes() -> None:
    of = made(PLAIN, BOTH)
    before = ir.to_proto(of).SerializeToString()
    padded(of)
    assert ir.to_proto(of).SerializeToString() == before


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    onnx_file.save(made(PLAIN, WIDE), tmp_path / "model.onnx", external_above=1)
    of = onnx_file.load(tmp_path / "model.onnx")
    assert any(isinstance(v.const_value, ir.ExternalTensor) for v in of.graph.initializers.values())
    fused, _ = fuse(of, "ort-cpu", forms=FORMS)
    onnx_file.save(fused, tmp_path / "fused.onnx")
    assert_same_function(made(PLAIN, WIDE), onnx_file.load(tmp_path / "fused.onnx"))


def test_one_first_product_of_two_feed_forwards_has_one_padded_input() -> None:
    body = "h = MatMul(x, w1) g = Relu(h) y = MatMul(g, w2) t = Tanh(h) z = MatMul(t, w3)"
    of = made(body.replace("w3", "t1"), WIDE_INPUT, outputs="float[batch,seq,1024] y, float[batch,seq,1024] z")
    fused, report = padded(of)
    assert operators(fused).count("Pad") == 1
    assert report.rules == {PADDED: 2}
    assert remove(fused)
    assert weights(fused) == weights(of)


def test_an_input_that_is_a_hidden_layer_is_padded_once() -> None:
    """Of the second feed-forward, only the input asks for it, which is the hidden layer of the first."""
    of = made(CHAIN, (16, 1024), outputs="float[batch,seq,1024] y")
    fused, report = padded(of)
    assert operators(fused) == operators(of)
    assert report.rules == {PADDED: 1}


def test_a_gate_of_one_number_for_each_token_stays() -> None:
    gate = "n = Constant<value = float[8,1] {1, 2, 3, 4, 5, 6, 7, 8}>() k = MatMul(x, n) s = Sigmoid(k)"
    fused, report = padded(made(f"h = MatMul(x, w1) g = Relu(h) {gate} m = Mul(g, s) y = MatMul(m, w2)", WIDE))
    assert report.rules == {PADDED: 1}
    assert set(weights(fused).values()) == {(8, 1040), (1040, 8)}


def test_a_dropout_that_draws_is_left() -> None:
    """A longer layer would draw other units."""
    of = made(
        "h = MatMul(x, w1) t = Constant<value = bool {1}>() q = Constant<value = float {0.5}>()"
        "d = Dropout<seed = 3>(h, q, t) g = Relu(d) y = MatMul(g, w2)",
        WIDE,
    )
    fused, report = padded(of)
    assert weights(fused) == weights(of)
    assert "Dropout" in str(report.sites[0].reason)


def test_a_function_that_stays_one_is_left() -> None:
    """Its body cannot read what is added to the main graph; it imports another opset, so it cannot be inlined."""
    numbers = ",".join(["0.01"] * 8192)
    function = f"""<domain: "my", opset_import: ["" : 17]> FF (x) => (y) {{
        v = Constant<value = float[8,1024] {{{numbers}}}>() w = Constant<value = float[1024,8] {{{numbers}}}>()
        h = MatMul(x, v) g = Relu(h) y = MatMul(g, w) }}"""
    of = model("y = my.FF(x)", opset=20, domains=["my"], functions=function)
    for node in of.functions["my", "FF", ""]:
        if node.op_type == "Constant":
            node.outputs[0].shape = ir.Shape(node.attributes["value"].as_tensor().shape.numpy())
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    assert PADDED not in report.rules
    assert_same_function(of, fused)
