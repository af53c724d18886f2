"""Rows with NaN beside numbers, which ``ReduceMax`` of onnxruntime may pass over."""

from __future__ import annotations

import numpy as np
import pytest

from ffn_export.calibration.calibrated import quantize_by_samples
from ffn_export.fusion.inference import prove_shapes
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.whole_rows import are_rows_whole
from tests.quantization.test_quantize import graph, operators, run

ALL = QuantizationOptions(int8=True, all_products=True)
X = np.random.default_rng(0).standard_normal((2, 40, 40)).astype(np.float32)
NORM = "one = Constant <value = float[40] {" + ", ".join(["1"] * 40) + "}> () n = LayerNormalization (x, one, c) "
TO_HEADS = "to = Constant <value = int64[4] {0, 0, 8, 5}> () back = Constant <value = int64[3] {0, 0, 40}> () "


def is_whole(body: str, value: str) -> bool:
    model = graph(NORM + body)
    stated = prove_shapes(model)
    found = next(each for node in model.graph for each in node.outputs if each.name == value)
    try:
        return are_rows_whole(found)
    finally:
        stated.restore(model)


@pytest.mark.parametrize(
    "body",
    [
        "m = Identity(n)",
        "m = MatMul(x, table)",
        "k = MatMul(x, table) l = Add(k, c) g = Gelu(l) m = Mul(g, n)",
        "l = Transpose <perm = [1, 0, 2]> (n) m = Relu(l)",
        "to = Constant <value = int64[2] {-1, 40}> () l = Reshape(n, to) m = Mul(l, c)",
        "q = MatMul(n, w) m = com.microsoft.MultiHeadAttention <num_heads = 4> (q, q, q)",
    ],
)
def test_rows_behind_norms_and_products_are_whole(body: str) -> None:
    assert is_whole(f"{body} y = MatMul(m, w)", "m")


@pytest.mark.parametrize(
    "body",
    [
        "m = Identity(x)",
        "m = Add(n, x)",
        "m = Transpose <perm = [0, 2, 1]> (n)",  # NaN of a row is in each column
        "m = Transpose (n)",
        TO_HEADS + "h = Reshape(n, to) k = Transpose <perm = [0, 2, 1, 3]> (h) m = Reshape(k, back)",
        "m = MatMul(n, x)",  # its columns come from rows of another
        "m = Softmax <axis = 1> (n)",
        "m = MatMul(n, c)",  # one number for each row: those of several rows are beside each other
    ],
)
def test_others_are_not(body: str) -> None:
    assert not is_whole(f"{body} y = MatMul(m, w)", "m")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 7, 39])
@pytest.mark.parametrize(
    "body",
    [
        "y = MatMul(x, w)",
        "m = MatMul(x, w) g = Gelu(m) y = MatMul(g, v)",
        "m = MatMul(x, w) k = MatMul(m, v) r = Add(k, x) y = MatMul(r, table)",
    ],
)
def test_a_row_with_one_bad_number_is_nan(body: str, place: int, bad: float) -> None:
    made = quantize_by_samples(graph(body), ALL, {"x": X})[0]
    wanted = run(made, X)
    x = X.copy()
    x[:, 3, place] = bad
    y = run(made, x)
    assert np.isnan(y[:, 3]).all()
    np.testing.assert_array_equal(np.delete(y, 3, 1), np.delete(wanted, 3, 1))


def test_a_token_with_nan_reaches_all_that_a_mixer_mixes_it_with() -> None:
    """Rows are tokens in float32, channels where a mixer has turned them: NaN of a token is then in each row."""
    body = NORM + "l = Transpose <perm = [0, 2, 1]> (n) m = MatMul(l, w) g = Gelu(m) k = MatMul(g, v) y = Add(k, x)"
    made = quantize_by_samples(graph(body), ALL, {"x": X})[0]
    x = X.copy()
    x[0, 3, 5] = np.nan
    y = run(made, x)
    assert np.isnan(y[0]).all()
    assert np.isfinite(y[1]).all()


def test_a_sum_is_written_only_where_a_maximum_may_pass_over_nan() -> None:
    made = quantize_by_samples(graph(NORM + "m = MatMul(n, w) g = Gelu(m) y = MatMul(g, v)"), ALL, {"x": X})[0]
    assert "ReduceSum" not in operators(made)
    made = quantize_by_samples(graph("m = MatMul(x, w) g = Gelu(m) y = MatMul(g, v)"), ALL, {"x": X})[0]
    assert operators(made).count("ReduceSum") == 1
