"""Products that are no MatMul or Gemm are named, and stay as they are."""

from __future__ import annotations

import pytest

from ffn_export.errors import UsageError
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import quantize, quantize_some
from tests.quantization.test_quantize import graph

TURNED = "r = Transpose<perm = [0,2,1]>(x) m = {first} a = Gelu(m) n = {second} y = Transpose<perm = [0,2,1]>(n)"
LEFT = TURNED.format(first="MatMul(v, r)", second="MatMul(w, a)")
CONVOLVED = TURNED.format(first="Conv(r, widen)", second="Conv(a, narrow)")
CONDITIONED = "m = MatMul(x, w) s = Mul(m, scale) a = Relu(s) y = MatMul(a, v)"


@pytest.mark.parametrize(
    ("product", "reason"),
    [
        ('Einsum <equation = "bsd,df->bsf"> (x, w)', "Einsum is no MatMul: `ffn-export fuse` makes one of it if it"),
        ('Einsum <equation = "df,bsd->bsf"> (w, x)', "Einsum is no MatMul: `ffn-export fuse` makes one of it if it"),
        ("com.microsoft.FusedMatMul <alpha = 2.0> (x, w)", "FusedMatMul is written by ONNX Runtime's optimizer: "),
    ],
)
def test_of_all_products_others_are_kept_with_the_reason(product: str, reason: str) -> None:
    every = QuantizationOptions(all_products=True)
    _, report = quantize(graph(f"m = {product} h = Relu(m) y = MatMul(h, v)"), every)
    assert [weight.name for weight in report.weights] == ["v"]
    assert [reason in why for why in (report.kept or {}).values()] == [True]
    with pytest.raises(UsageError, match=f"nothing to quantize: h: {reason}"):
        quantize_some(graph(f"h = {product} y = MatMul(h, h)"), every)


def test_a_matrix_on_the_left_is_kept_with_the_reason() -> None:
    every = QuantizationOptions(all_products=True)
    _, report = quantize(graph("y = MatMul(v, x)"), every)
    assert report.weights == ()
    assert list((report.kept or {}).values()) == [
        "its matrix is the first operand, which no kernel takes in few bits: multiply rows by it"
    ]
    with pytest.raises(UsageError, match="nothing to quantize: y: its matrix is the first operand"):
        quantize_some(graph("y = MatMul(v, x)"), every)


def test_an_einsum_of_computed_values_is_none_to_quantize() -> None:
    body = 'm = Einsum <equation = "bsd,btd->bst"> (x, x) h = Relu(x) y = MatMul(h, v)'
    _, report = quantize(graph(body), QuantizationOptions(all_products=True))
    assert report.kept == {}


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (LEFT, "its matrix is the first operand, which no kernel"),
        (CONVOLVED, "Conv of kernel 1 is no MatMul: write it"),
    ],
)
def test_products_with_the_features_in_another_axis_are_kept_with_the_reason(
    body: str, reason: str, every: bool
) -> None:
    options = QuantizationOptions(all_products=every)
    _, report = quantize(graph(body), options)
    assert [why.startswith(reason) for why in (report.kept or {}).values()] == [True, True]
    with pytest.raises(UsageError, match=f"nothing to quantize: m and 1 more: {reason}"):
        quantize_some(graph(body), options)


@pytest.mark.parametrize("body", ["y = Conv(x, wider)", "m = MatMul(column, x) y = Relu(m)"])
def test_what_is_no_product_of_features_is_not_mentioned(body: str) -> None:
    _, report = quantize(graph(body), QuantizationOptions(all_products=True))
    assert (report.weights, report.kept) == ((), {})


def test_a_feed_forward_that_is_not_fused_is_quantised() -> None:
    model = graph(CONDITIONED, inputs=", float[batch,1,48] scale")
    _, report = quantize(model)
    assert [weight.name for weight in report.weights] == ["w", "v"]
