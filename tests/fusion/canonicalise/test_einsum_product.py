"""Products of rows with a matrix that are spelled as sums over named axes."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.fusion.pipeline import fuse
from tests.fusion.graphs import assert_fuses, assert_refuses, assert_same_function, cast, model, operators

MATRICES = """float[8,2] w = {1,-2,3,-4,5,-6,7,-8,8,7,-6,5,-4,3,-2,1},
    float[2,8] wt = {1,3,5,7,8,-6,-4,-2,-2,-4,-6,-8,7,5,3,1}, float[8,8] square = {""" + (
    ",".join(str(number % 7 - 3) for number in range(64)) + "}"
)


def einsum(equation: str, operands: str, y: str = "float[batch,seq,2] y", x: str = "float[batch,seq,8] x") -> ir.Model:
    text = f'y = Einsum<equation = "{equation}">({operands})'
    return model(text, MATRICES, inputs=f"{x}, float[8,2] v", outputs=y)


@pytest.mark.parametrize(
    ("equation", "operands"),
    [
        ("bsd,df->bsf", "x, w"),
        ("bsd,fd->bsf", "x, wt"),
        ("df,bsd->bsf", "w, x"),
        ("fd,bsd->bsf", "wt, x"),
        ("...d,df->...f", "x, w"),
        ("b...i,oi->b...o", "x, wt"),
        (" B s D , D F -> B s F ", "x, w"),
        ("bsd,de->bse", "x, square"),
        ("bsd,ed->bse", "x, square"),
    ],
)
def test_products(equation: str, operands: str) -> None:
    y = "float[batch,seq,8] y" if "square" in operands else "float[batch,seq,2] y"
    fused, report = assert_fuses(einsum(equation, operands, y), ["MatMul"])
    assert report.rules == {"einsum-product": 1}
    assert len(fused.graph.initializers) == 1


@pytest.mark.parametrize("x", ["float[8] x", "float[seq,8] x", "float[a,b,c,8] x"])
def test_other_ranks(x: str) -> None:
    assert_fuses(einsum("...d,df->...f", "x, w", x.replace("8] x", "2] y").replace("[8", "[2"), x), ["MatMul"])


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT16, ir.DataType.BFLOAT16])
def test_half_precisions(dtype: ir.DataType) -> None:
    fused, _ = fuse(cast(einsum("bsd,fd->bsf", "x, wt"), dtype), "portable")
    assert operators(fused) == ["MatMul"]
    assert {value.dtype for value in fused.graph.initializers.values()} == {dtype}


@pytest.mark.parametrize(
    ("equation", "operands", "y"),
    [
        ("bsd,df->bs", "x, w", "float[batch,seq] y"),  # summed over the new axis too
        ("bsd,df->sbf", "x, w", "float[seq,batch,2] y"),
        ("bsd,df->bfs", "x, w", "float[batch,2,seq] y"),
        ("bds,df->bsf", "x, square", "float[batch,8,8] y"),
        ("bsd,df->bsdf", "x, w", "float[batch,seq,8,2] y"),
        ("bsd,dd->bsd", "x, square", "float[batch,seq,8] y"),
        ("bsd,df", "x, w", "float[batch,seq,2] y"),
        ("bsd,df->bsf", "x, v", "float[batch,seq,2] y"),  # any caller's matrix
        ("bsd->bs", "x", "float[batch,seq] y"),
        ("bsd,df,fg->bsg", "x, w, wt", "float[batch,seq,8] y"),
    ],
)
def test_other_sums(equation: str, operands: str, y: str) -> None:
    x = "float[batch,8,8] x" if equation.startswith("bds") else "float[batch,seq,8] x"
    assert_refuses(einsum(equation, operands, y, x), None, runs=equation != "bsd,df")


def test_a_size_that_may_be_1_stretches() -> None:
    """Of what the standard leaves open, ONNX Runtime sums a single column over all rows of the matrix."""
    assert_refuses(einsum("bsd,df->bsf", "x, w", x="float[batch,seq,1] x"), None)
    assert_refuses(einsum("bsd,df->bsf", "x, w", x="float[batch,seq,width] x"), None, runs=False)


def test_a_matrix_that_is_read_elsewhere_is_not_stored_twice() -> None:
    text = """y = Einsum<equation = "bsd,fd->bsf">(x, wt) z = Einsum<equation = "bsf,fd->bsd">(y, wt)"""
    tied = model(text, MATRICES, inputs="float[batch,seq,8] x", outputs="float[batch,seq,8] z")
    fused, _ = assert_fuses(tied, ["Transpose", "MatMul", "MatMul"])
    assert set(fused.graph.initializers) == {"wt"}


def test_a_feed_forward_of_sums_is_one() -> None:
    text = """h = Einsum<equation = "bsd,df->bsf">(x, w) a = Relu(h) y = Einsum<equation = "bsf,df->bsd">(a, w)"""
    block = model(text, MATRICES, inputs="float[batch,seq,8] x", outputs="float[batch,seq,8] y")
    fused, report = fuse(block, "ort-cpu")
    assert_same_function(block, fused)
    (site,) = report.sites
    assert (site.status, site.activation, site.d_model, site.d_ff) == ("rewritten", "relu", 8, 2)


def test_a_matrix_of_another_rank_in_a_branch_that_never_runs() -> None:
    wrong = '{ z = Einsum<equation = "sd,df->sf">(x, v) }'
    branches = f"then_branch = t () => (float z) {wrong}, else_branch = e () => (float z) {{ z = Relu(x) }}"
    of = model(f"y = If(c) <{branches}>", "bool c = {0}, float[8] v = {1,2,3,4,5,6,7,8}", inputs="float[seq,8] x")
    fused, report = fuse(of, "portable")
    assert report.sites == ()
    assert operators(fused) == ["If"]
