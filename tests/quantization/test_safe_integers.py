"""Products of 8-bit integers: the same on a processor whose 16-bit sums saturate."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.calibration.calibrated import quantize_by_samples
from ffn_export.quantization import safe_integers
from ffn_export.quantization.options import QuantizationOptions
from tests.quantization.test_quantize import graph

Array = np.ndarray[Any, np.dtype[Any]]
DRAW = np.random.default_rng(5)


def exact(left: Array, right: Array) -> Array:
    """The product of ``uint8`` by ``int8`` in 32-bit integers, as with VNNI."""
    return left.astype(np.int32) @ right.astype(np.int32)


def saturating(left: Array, right: Array) -> Array:
    """The same as ``vpmaddubsw`` adds it: two neighbours in 16 bits, and these sums in 32 bits."""
    odd = left.shape[1] % 2
    left = np.pad(left.astype(np.int32), ((0, 0), (0, odd)))
    right = np.pad(right.astype(np.int32), ((0, odd), (0, 0)))
    products = left[:, :, None] * right[None]
    pairs = products.reshape(len(left), -1, 2, right.shape[1]).sum(axis=2)
    summed: Array = np.clip(pairs, -(2**15), 2**15 - 1).sum(axis=1)
    return summed


def are_safe(numbers: Array) -> bool:
    """Whether no two neighbours along the input axis of ``[d_in, d_out]`` numbers can saturate."""
    pairs = np.pad(numbers.astype(np.int16), ((0, len(numbers) % 2), (0, 0))).reshape(-1, 2, numbers.shape[1])
    return all(bool((np.maximum(sign * pairs, 0).sum(axis=1) <= 128).all()) for sign in (1, -1))


def worst_rows(numbers: Array) -> Array:
    """Rows of activations at which every pair of a column reaches its largest and its smallest sum."""
    columns = numbers.T
    return np.concatenate([255 * (columns > 0), 255 * (columns < 0), DRAW.integers(0, 256, (8, len(numbers)))]).astype(
        np.uint8
    )


@pytest.mark.parametrize("shape", [(40, 12), (41, 7), (1, 3), (2, 2)])
@pytest.mark.parametrize("kind", ["normal", "constant", "one sign", "outliers", "zeros"])
def test_nothing_saturates(shape: tuple[int, int], kind: str) -> None:
    matrix = DRAW.standard_normal(shape).astype(np.float32)
    if kind == "constant":
        matrix[:] = -1
    elif kind == "one sign":
        matrix = np.abs(matrix)
    elif kind == "outliers":
        matrix[0] *= 100
    elif kind == "zeros":
        matrix[:] = 0
    numbers = safe_integers.rounded(matrix, safe_integers.scales(matrix))
    assert are_safe(numbers)
    assert np.isfinite(safe_integers.scales(matrix)).all()
    rows = worst_rows(numbers)
    assert np.array_equal(saturating(rows, numbers), exact(rows, numbers))


def test_plain_rounding_does_saturate() -> None:
    """The model of the processor shows the fault that is avoided."""
    matrix = DRAW.standard_normal((64, 16)).astype(np.float32)
    numbers = np.rint(matrix / np.abs(matrix).max(axis=0) * 127).astype(np.int8)
    numbers[:2] = 127
    assert not are_safe(numbers)
    rows = worst_rows(numbers)
    assert not np.array_equal(saturating(rows, numbers), exact(rows, numbers))


def test_it_costs_less_than_seven_bits() -> None:
    matrix = DRAW.standard_normal((512, 64)).astype(np.float32)

    def error(numbers: Array, scales: Array) -> float:
        return float(np.linalg.norm(numbers * scales - matrix) / np.linalg.norm(matrix))

    scales = safe_integers.scales(matrix)
    halved = np.abs(matrix).max(axis=0) / 63
    seven = error(np.rint(matrix / halved), halved)
    assert error(safe_integers.rounded(matrix, scales), scales) < 0.9 * seven


def test_important_inputs_are_rounded_better() -> None:
    matrix = DRAW.standard_normal((64, 8)).astype(np.float32)
    matrix[0] = 30  # reaches far, and no activation is there
    importance = np.ones(64, np.float32)
    importance[0] = 0

    def error(scales: Array) -> float:
        return float(np.square(safe_integers.rounded(matrix, scales) * scales - matrix)[1:].sum())

    assert error(safe_integers.scales(matrix, importance)) <= error(safe_integers.scales(matrix))


@pytest.mark.parametrize(
    "body",
    [
        "m = MatMul(x, w) a = Add(m, b) u = MatMul(x, table) g = Sigmoid(a) h = Mul(g, u) y = MatMul(h, v)",
        "m = MatMul(x, w) k = MatMul(m, v) l = MatMul(k, w) y = MatMul(l, v)",
        "m = Gemm <transB = 1> (x, t, b) h = Relu(m) y = Gemm <transB = 1> (h, w, c)",
    ],
    ids=["gated", "shared", "turned"],
)
@pytest.mark.parametrize("sampled", [True, False])
def test_no_product_of_a_file_saturates(body: str, sampled: bool) -> None:
    """At activations of 255 beside every weight of one sign, and of the zero point, as the file itself holds them."""
    model = graph(body, rows="rows")
    for value in model.graph.initializers.values():  # as hard as can be: large neighbours of one sign
        array = value.const_value.numpy().copy() if value.const_value is not None else np.zeros(0)
        array[: len(array) // 2] = np.abs(array).max()
        value.const_value = ir.tensor(array, name=value.name)
    x = DRAW.standard_normal((6, 40)).astype(np.float32)
    options = QuantizationOptions(int8=True, all_products=True)
    quantized, _ = quantize_by_samples(model, options, {"x": x} if sampled else None)
    products = [node for node in quantized.graph if node.op_type == "MatMulIntegerToFloat"]
    assert len(products) >= 2
    for node in products:
        weight, zero = (node.inputs[place] for place in (1, 4))
        assert weight is not None
        assert weight.const_value is not None
        assert zero is not None
        assert zero.const_value is not None
        numbers = weight.const_value.numpy()
        assert numbers.dtype == np.int8
        assert len(node.inputs) == 5  # weights without a zero point, which would move them
        left = np.concatenate([worst_rows(numbers), np.full((1, len(numbers)), zero.const_value.numpy(), np.uint8)])
        assert np.array_equal(saturating(left, numbers), exact(left, numbers))


def test_errors_of_inputs_off_zero_do_not_add_up() -> None:
    draw = np.random.default_rng(0)
    matrix = draw.uniform(-1, 1, (64, 32)).astype(np.float32)
    x = (draw.uniform(0, 1, (100, 64)) + 4).astype(np.float32)
    squares, means = np.square(x).mean(axis=0), x.mean(axis=0)

    def error(scales: Array) -> float:
        return float(np.linalg.norm(x @ (safe_integers.rounded(matrix, scales) * scales - matrix)))

    alike, known = (error(safe_integers.scales(matrix, squares, each)) for each in (None, means))
    assert known < 0.7 * alike
