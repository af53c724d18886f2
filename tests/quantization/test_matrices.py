"""Matrices that are no initializers of the product itself: laid out by nodes, in constants, computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import quantize_some
from tests.quantization.test_quantize import DRAW, graph, operators, relative, run

LAID_OUT = {  # a product and what stands between it and its matrix
    "identity": ("i = Identity(v) r = Identity(i) y = MatMul(h, r)", ("v", True)),
    "transposed": ("r = Transpose(w) y = MatMul(h, r)", ("w", True)),
    "transposed twice": ("r = Transpose(v) s = Transpose<perm = [1, 0]>(r) y = MatMul(h, s)", ("v", True)),
    "in its order": ("r = Transpose<perm = [0, 1]>(v) y = MatMul(h, r)", ("v", True)),
    "by the product": ("r = Identity(w) y = Gemm<transB = 1>(h, r)", ("w", True)),
    "turned back by the product": ("r = Transpose(v) y = Gemm<transB = 1>(h, r)", ("v", True)),
    "tied": ("r = Transpose(w) z = MatMul(h, r) e = Gather(w, k) g = ReduceSum(e) y = Add(z, g)", ("w", False)),
}


@pytest.mark.parametrize("options", [{"bits": 8}, {"int8": True}], ids=str)
@pytest.mark.parametrize("between", LAID_OUT)
def test_a_matrix_is_found_behind_nodes_that_lay_it_out(between: str, options: dict[str, Any]) -> None:
    body, (matrix, is_its_own) = LAID_OUT[between]
    rows = "rows" if "Gemm" in body else "batch,seq"
    model = graph(f"k = Constant<value_ints = [1, 2]>() f = MatMul(x, table) h = Relu(f) {body}", rows=rows)
    quantized, report = quantize_some(model, QuantizationOptions(all_products=True, **options))
    assert matrix in {weight.name for weight in report.weights}
    assert not report.kept
    assert (matrix in quantized.graph.initializers) is not is_its_own
    assert not {"Transpose", "MatMul", "Gemm"} & set(operators(quantized))
    x = DRAW.standard_normal((5, 40) if rows == "rows" else (2, 3, 40)).astype(np.float32)
    assert relative(run(quantized, x), run(model, x)) < 0.02


def test_a_matrix_in_a_constant_node_is_quantized() -> None:
    model = graph("y = MatMul(x, square)")
    square = ir.Tensor(DRAW.standard_normal((40, 40)).astype(np.float32))
    product = model.graph[0]
    constant = ir.node("Constant", [], {"value": square}, name="held")
    constant.outputs[0].name = "square"
    product.replace_input_with(1, constant.outputs[0])
    model.graph.insert_before(product, constant)
    quantized, report = quantize_some(model, QuantizationOptions(all_products=True))
    assert operators(quantized) == ["MatMulNBits"]
    assert [(weight.name, weight.bytes_before) for weight in report.weights] == [("square", 6400)]
    assert operators(model) == ["Constant", "MatMul"], "the model is not modified"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "s = Constant<value_ints = [40, 48]>() r = Reshape(w, s) h = MatMul(x, r) y = MatMul(h, v)",
            "by Reshape: fold",
        ),
        ("h = MatMul(x, w) y = MatMul(h, stack)", "its matrix has 3 axes"),
    ],
)
def test_a_matrix_that_is_not_quantized_says_why(body: str, why: str) -> None:
    _, report = quantize_some(graph(body), QuantizationOptions(all_products=True))
    assert [weight.name for weight in report.weights] == ["v" if "Reshape" in body else "w"]
    assert [why in reason for reason in (report.kept or {}).values()] == [True]
