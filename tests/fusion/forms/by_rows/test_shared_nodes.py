"""Chains of products: the second product of one feed-forward is the first of the next, so only one is rewritten."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir as ir
import pytest

from ffn_export.fusion.forms.by_rows.row_chunks import ROW_CHUNKS
from ffn_export.fusion.forms.by_rows.split_hidden import SPLIT_HIDDEN_LAYERS
from ffn_export.fusion.forms.padded_widths.pad import PADDED_WIDTHS
from ffn_export.fusion.pipeline import fuse
from tests.fusion.feed_forwards import feed_forward
from tests.fusion.graphs import assert_same_function

CHAIN = "h = MatMul(x, w1) g = Relu(h) k = MatMul(g, w2) r = Relu(k) y = MatMul(r, t2)"
BIASED = "h = MatMul(x, w1) a = Add(h, b1) g = Relu(a) k = MatMul(g, w2) c = Add(k, b2) r = Relu(c) y = MatMul(r, t2)"
GATED = "h = MatMul(x, w1) u = MatMul(x, w3) m = Mul(h, u) k = MatMul(m, w2) r = Relu(k) y = MatMul(r, t2)"
BY_ROWS = [ROW_CHUNKS.name, SPLIT_HIDDEN_LAYERS.name]
FORMS = [BY_ROWS[:1], BY_ROWS[1:], [*BY_ROWS, PADDED_WIDTHS.name]]
pytestmark = pytest.mark.usefixtures("small")


def sizes(of: ir.Model) -> list[dict[str, np.ndarray]]:
    draw = np.random.default_rng(0)
    return [{"x": draw.standard_normal((*rows, 8)).astype(np.float32)} for rows in product((0, 1, 5), (0, 1, 3))]


@pytest.mark.parametrize("written", [CHAIN, BIASED, GATED], ids=["plain", "biased", "gated"])
@pytest.mark.parametrize("forms", FORMS)
def test_each_product_is_of_one_feed_forward(written: str, forms: list[str]) -> None:
    of = feed_forward(written, outputs="float[batch,seq,64] y", widths=(8, 64))
    fused, report = fuse(of, "ort-cpu", forms=forms)
    assert {rule: count for rule, count in report.rules.items() if rule in BY_ROWS and count != 1} == {}
    for given in sizes(of):
        assert_same_function(of, fused, given)


@pytest.mark.parametrize("target", ["portable", "ort", "ort-native"])
def test_other_targets_too(target: str) -> None:
    of = feed_forward(BIASED, outputs="float[batch,seq,64] y", widths=(8, 64))
    fused, _ = fuse(of, target)
    for given in sizes(of):
        assert_same_function(of, fused, given)
