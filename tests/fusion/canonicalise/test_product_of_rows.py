"""Products of rows between Reshapes, which ``ort-native`` writes on all axes."""

from __future__ import annotations

import pytest

from ffn_export.fusion.pipeline import rewrite
from tests.fusion.functions.nodes import graph
from tests.fusion.graphs import assert_same_function, operators

WEIGHTS = {"w": (8, 8), "b": (8,)}
BODY = """r = Reshape(x, rows) g = Gemm(r, w, b) shape = Shape(x) y = Reshape<allowzero = 1>(g, shape)"""
SIZES = "int64[2] rows = {-1, 8}"


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        ("Gemm(r, w, b)", ["MatMul", "Add"]),
        ("Gemm<transB = 1>(r, w, b)", ["Transpose", "MatMul", "Add"]),
        ("Gemm(r, w)", ["MatMul"]),
        ("MatMul(r, w)", ["MatMul"]),
    ],
)
def test_rows_and_back(product: str, expected: list[str]) -> None:
    of = graph(BODY.replace("Gemm(r, w, b)", product), WEIGHTS, constants=SIZES)
    fused = rewrite(of, "ort-native").model
    assert operators(fused) == expected
    assert_same_function(of, fused)


def test_rows_that_join_heads() -> None:
    of = graph(
        "r = Reshape(x, rows) g = Gemm(r, w, b) first = Shape<end = 2>(x) shape = Concat<axis = 0>(first, d)"
        "y = Reshape<allowzero = 1>(g, shape)",
        WEIGHTS,
        inputs="float[batch,seq,2,4] x",
        constants=f"{SIZES}, int64[1] d = {{8}}",
    )
    fused = rewrite(of, "ort-native").model
    assert operators(fused) == ["Reshape", "MatMul", "Add"]
    assert_same_function(of, fused)


@pytest.mark.parametrize(
    ("change", "to"),
    [("Gemm(", "Gemm<alpha = 0.5>("), ("shape = Shape(x)", "shape = Shape(z)"), ("Gemm(r, w, b)", "Gemm(r, f, b)")],
    ids=["scaled", "other axes", "fed"],
)
def test_left(change: str, to: str) -> None:
    inputs = "float[batch,seq,8] x, float[seq,batch,8] z, float[8,8] f"
    of = graph(BODY.replace(change, to), WEIGHTS, inputs=inputs, outputs="float[a,c,8] y", constants=SIZES)
    fused = rewrite(of, "ort-native").model
    assert "Gemm" in operators(fused)
    assert_same_function(of, fused)
