"""One scale for all rows of an input, where scales of their own are not worth their time."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.calibration.calibrated import quantize_by_samples
from ffn_export.core.types import Array
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.whole_input import WHOLE
from tests.quantization.test_quantize import graph, operators, relative, run

ALL = QuantizationOptions(int8=True, all_products=True)
X = np.rint(1000 * np.random.default_rng(0).standard_normal((4, 32, 40))).astype(np.int64)
NORM = "f = Cast <to = 1> (x) one = Constant <value = float[40] {" + ", ".join(["1"] * 40) + "}> () "
NORM += "n = LayerNormalization (f, one, c) "


def of_integers(body: str) -> ir.Model:
    """A model of integers whose norm writes ``n``."""
    model = graph(NORM + body)
    model.graph.inputs[0].dtype = ir.DataType.INT64
    return model


def quantized(body: str) -> ir.Model:
    return quantize_by_samples(of_integers(body), ALL, {"x": X})[0]


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("m = MatMul(n, w) y = Add(m, b)", []),
        ("m = MatMul(n, w) y = Add(b, m)", []),
        ("m = MatMul(n, w) a = Add(m, b) y = Relu(a)", ["Relu"]),
        ("m = MatMul(n, w) a = Add(m, b) y = Mul(a, m)", ["Add", "Mul"]),  # the product is read without the bias, too
        ("m = MatMul(n, w) k = Tanh(m) y = Add(m, k)", ["Tanh", "Add"]),
        ("m = MatMul(n, w) y = Add(m, c1)", ["Add"]),  # as wide as the result, and not one number for each column
    ],
)
def test_the_product_adds_a_bias_that_follows_it(body: str, after: list[str]) -> None:
    scalar = "c1 = Constant <value = float {0.5}> () "
    made = quantized(scalar + body)
    assert operators(made)[-2 - len(after) :] == ["DynamicQuantizeLinear", "MatMulIntegerToFloat", *after]
    assert relative(run(made, X), run(of_integers(scalar + body), X)) < 0.02


def test_products_of_one_input_share_its_numbers() -> None:
    made = quantized("m = MatMul(n, w) k = MatMul(n, table) a = Add(m, b) y = Add(a, k)")
    assert operators(made).count("DynamicQuantizeLinear") == 1
    assert operators(made)[-3:] == ["MatMulIntegerToFloat", "MatMulIntegerToFloat", "Add"]


@pytest.mark.parametrize(
    "body",
    [
        "y = MatMul(f, w)",  # any size, without a norm
        "m = MatMul(n, w) k = Mul(m, m) l = Mul(k, k) o = Mul(l, l) y = MatMul(o, v)",  # sizes to the eighth power
        "m = MatMul(n, w) r = Transpose <perm = [0, 2, 1]> (m) s = MatMul(m, r) p = Softmax(s) a = MatMul(p, m)"
        " y = MatMul(a, v)",  # means over as many rows as are seen
    ],
)
def test_rows_of_other_sizes_keep_their_scales(body: str) -> None:
    assert operators(quantized(body))[-2:] == ["MatMulIntegerToFloat", "Mul"]


def test_an_empty_input() -> None:
    made = quantized("m = MatMul(n, w) y = Add(m, b)")
    assert run(made, X[:0]).shape == (0, 32, 48)


def test_scales_of_rows_cost_little_where_products_are_large() -> None:
    def cost(d_in: int, *widths: int) -> float:
        return WHOLE.saves([np.zeros((d_in, d_out), np.float32) for d_out in widths])

    assert cost(768, 768) > cost(768, 3072) > cost(3072, 3072)
    assert cost(768, 768, 768, 768) < cost(768, 768)
    assert cost(8, 8) < 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 3, 31])
def test_in_a_model_of_floats_nan_stays_in_its_row(bad: float, place: int) -> None:
    """Which needs scales of rows: one that all rows share is NaN, or is not, by where the NaN stands."""
    x = X.astype(np.float32)
    model = graph(NORM.replace("Cast <to = 1>", "Identity") + "m = MatMul(n, w) y = Add(m, b)")
    made = quantize_by_samples(model, ALL, {"x": x})[0]
    assert "DynamicQuantizeLinear" not in operators(made)
    wanted = run(made, x)
    x[:, place, -1] = bad
    y = run(made, x)
    assert np.isnan(y[:, place]).all()
    np.testing.assert_array_equal(np.delete(y, place, 1), np.delete(wanted, place, 1))


OF_FLOATS = NORM.replace("Cast <to = 1>", "Identity")
FLOATS = X.astype(np.float32)


def of_floats(body: str) -> tuple[ir.Model, Array]:
    """Quantise a model of floats whose norm writes ``n``. Return it, and what the model gives for the samples."""
    model = graph(OF_FLOATS + body)
    return quantize_by_samples(model, ALL, {"x": FLOATS})[0], run(model, FLOATS)


def shares_scale(model: ir.Model) -> list[bool]:
    """Return for each product whether its rows share a scale, which the graph computes."""
    products = [node for node in model.graph if node.op_type == "MatMulIntegerToFloat"]
    return [node.inputs[2] is not None and node.inputs[2].producer() is not None for node in products]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 3, 31])
@pytest.mark.parametrize(
    "hidden",
    [
        "m = MatMul(n, w) a = Add(m, b) h = Gelu(a)",
        "m = MatMul(n, w) h = Relu(m)",
        "g = MatMul(n, w) u = MatMul(n, table) s = Sigmoid(g) h = Mul(s, u)",
    ],
)
def test_in_a_model_of_floats_rows_share_a_scale_if_the_next_product_makes_nan_of_those_that_are(
    hidden: str, place: int, bad: float
) -> None:
    made, wanted = of_floats(f"{hidden} o = MatMul(h, v) y = Add(o, x)")
    *first, last = shares_scale(made)
    assert all(first)
    assert not last
    x = FLOATS.copy()
    x[:, place, -1] = bad
    y = run(made, x)
    assert np.isnan(y[:, place]).all()
    assert relative(np.delete(y, place, 1), np.delete(wanted, place, 1)) < 0.02
    assert run(made, x[:0]).shape == (0, 32, 40)


@pytest.mark.parametrize(
    "body",
    [
        "m = MatMul(n, w) y = Add(m, b)",  # no product behind it
        "m = MatMul(n, w) h = Relu(m) o = MatMul(h, v) k = Tanh(m) y = Concat <axis = -1> (o, k)",  # read elsewhere
        "m = MatMul(n, w) h = Relu(m) o = MatMul(h, v) p = MatMul(m, v) y = Add(o, p)",  # by two products
        # Other rows:
        "m = MatMul(n, w) h = Transpose <perm = [0, 2, 1]> (m) r = MatMul(h, n) s = Relu(r) y = MatMul(s, table)",
        "m = MatMul(n, w) h = Softmax <axis = 1> (m) y = MatMul(h, v)",  # where NaN reaches other rows
        "m = MatMul(n, w) h = Add(m, twice) y = MatMul(h, v)",  # twice as many rows
    ],
)
def test_otherwise_rows_keep_their_scales(body: str) -> None:
    twice = "twice = Constant <value = float[2,1,1,1] {1, 2}> () "
    model = graph(OF_FLOATS + twice + body.replace("y =", "z =") + " y = Identity(x)")
    model.graph.outputs.append(next(node for node in model.graph if node.outputs[0].name == "z").outputs[0])
    made = quantize_by_samples(model, ALL, {"x": FLOATS})[0]
    assert shares_scale(made)
    assert not any(shares_scale(made))


def test_rows_keep_their_scales_where_the_caller_gets_the_result_before_the_next_product() -> None:
    model = graph(OF_FLOATS + "m = MatMul(n, w) h = Relu(m) y = MatMul(h, v)")
    model.graph.outputs.append(next(node for node in model.graph if node.op_type == "Relu").outputs[0])
    made = quantize_by_samples(model, ALL, {"x": FLOATS})[0]
    assert shares_scale(made) == [False, False]


def test_a_bias_that_a_branch_adds_stays_there() -> None:
    branches = "then_branch = t () => (float[batch,seq,48] z) { z = Add(m, b) }, "
    branches += "else_branch = e () => (float[batch,seq,48] z) { z = Identity(b) }"
    body = f"m = MatMul(n, w) s = ReduceSum <keepdims = 0> (x) g = Equal(s, s) y = If (g) <{branches}>"
    made = quantized(body)
    assert operators(made).count("MatMulIntegerToFloat") == 1
    assert relative(run(made, X), run(of_integers(body), X)) < 0.02
