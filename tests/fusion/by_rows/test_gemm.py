"""Products and their biases as one ``Gemm`` on rows."""

from __future__ import annotations

import pytest

from ffn_export.fusion.decisions import GEMM
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.pipeline import fuse
from tests.fusion.feed_forwards import GATED, PLAIN, feed_forward
from tests.fusion.graphs import assert_interface_kept, assert_same_function, feeds, operators

FORMS = Forms(frozenset({GEMM}))
BACK = ["Shape", "Concat", "Reshape"]


def test_both_biases_go_into_the_products() -> None:
    of = feed_forward(PLAIN)
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    assert operators(fused) == ["Reshape", "Gemm", "Gelu", "Gemm", *BACK]
    assert [(site.kind, site.status, site.rule) for site in report.sites] == [("feed_forward", "rewritten", GEMM)]
    assert report.rules == {GEMM: 1}
    assert_interface_kept(of, fused)
    assert_same_function(of, fused)


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0), (1, 1), (2, 7)])
def test_any_number_of_tokens(sizes: tuple[int, int]) -> None:
    of = feed_forward(PLAIN)
    x = feeds(of)["x"]
    resized = x[:1, :1].repeat(sizes[0], 0).repeat(sizes[1], 1)
    assert_same_function(of, fuse(of, "ort-cpu", forms=FORMS)[0], {"x": resized})


def test_a_matrix_needs_no_reshape() -> None:
    of = feed_forward(PLAIN, inputs="float[tokens,8] x", outputs="float[tokens,8] y")
    fused, _ = fuse(of, "ort-cpu", forms=FORMS)
    assert operators(fused) == ["Gemm", "Gelu", "Gemm"]
    assert_same_function(of, fused)


def test_one_bias_is_enough_and_none_is_left_alone() -> None:
    only_first = feed_forward("h = MatMul(x, w1) a = Add(b1, h) g = Gelu(a) y = MatMul(g, w2)")
    assert operators(fuse(only_first, "ort-cpu", forms=FORMS)[0]) == ["Reshape", "Gemm", "Gelu", "MatMul", *BACK]
    without = feed_forward(GATED)
    assert operators(fuse(without, "ort-cpu", forms=FORMS)[0]) == operators(without)


def test_a_product_that_others_read_keeps_its_node() -> None:
    of = feed_forward(f"{PLAIN} z = Neg(h)", outputs="float[batch,seq,8] y, float[batch,seq,16] z")
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    assert operators(fused) == operators(of)
    assert "not by rows" in str(report.sites[0].reason)
    assert_same_function(of, fused)


def test_two_feed_forwards_in_a_row() -> None:
    second = "h2 = MatMul(y1, w1) a2 = Add(h2, b1) g2 = Gelu(a2) o2 = MatMul(g2, w2) y = Add(o2, b2)"
    of = feed_forward(f"{PLAIN.replace('y = Add', 'y1 = Add')} {second}")
    fused, report = fuse(of, "ort-cpu", forms=FORMS)
    assert operators(fused) == ["Reshape", "Gemm", "Gelu", "Gemm", *BACK] * 2
    assert report.rules == {GEMM: 2}
    assert_same_function(of, fused)


def test_the_value_that_is_excluded_stays() -> None:
    from ffn_export.fusion.pipeline import rewrite

    of = feed_forward(PLAIN)
    assert operators(rewrite(of, "ort-cpu", ["y"], forms=FORMS).model) == operators(of)
    assert rewrite(of, "ort-cpu", forms=FORMS).values == ("y",)


def test_as_a_function_and_fused_again_it_is_still_a_feed_forward() -> None:
    of = feed_forward(PLAIN.replace("g = Gelu(a)", "s = Sigmoid(a) g = Mul(a, s)"))
    one_node, _ = fuse(of, "ort-cpu", forms=FORMS, outline=True)
    # Where the function is written out, it casts to the dtype that is there.
    again, report = fuse(one_node, "ort-cpu", forms=FORMS)
    assert [(site.kind, site.activation) for site in report.sites] == [("feed_forward", "silu")]
    assert "CastLike" not in operators(again)
    assert_same_function(of, again)
