"""A fault in padded widths is seen and undone, and a fault behind them is still found where it is."""

from __future__ import annotations

import numpy as np
import pytest

from ffn_export.core.types import Array
from ffn_export.fusion.forms.padded_widths import pad
from ffn_export.fusion.forms.padded_widths.units import RULE as PADDED
from ffn_export.fusion.forms.padded_widths.units import Padding, padded
from ffn_export.fusion_check.check import fuse_checked
from tests.fusion.feed_forwards import GATED, PACKED, PLAIN, feed_forward
from tests.fusion.graphs import assert_same_function, operators

FORMS = [PADDED]
SWISH = "h = MatMul(x, w1) s = Sigmoid(h) g = Mul(h, s) u = MatMul(x, w3) m = Mul(g, u) y = MatMul(m, w2)"


@pytest.mark.parametrize("body", [PLAIN, GATED, PACKED, SWISH])
def test_what_is_right_is_left(body: str) -> None:
    """A value that a rule wrote and that grew afterwards is no longer the value of that name."""
    fused, report = fuse_checked(feed_forward(body, widths=(8, 1024)), "ort-cpu", forms=FORMS)
    assert report.check.status == "passed"
    assert report.rules[PADDED] == 1
    assert {"g", "m"}.isdisjoint(value.name for node in fused.graph for value in node.outputs)


@pytest.mark.parametrize("body", [PLAIN, SWISH])
def test_a_faulty_padding_is_undone(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    def without_halving(array: Array, paddings: tuple[Padding, ...]) -> Array:
        return padded(array, [Padding(p.axis, "again" if p.fill == "halved" else p.fill, p.parts) for p in paddings])

    of = feed_forward(body, widths=(8, 1024))
    monkeypatch.setattr(pad, "padded", without_halving)
    fused, report = fuse_checked(of, "ort-cpu", forms=FORMS)
    assert report.check.status == "rolled back"
    assert [(site.kind, site.status) for site in report.sites] == [("feed_forward", "rolled back")]
    assert "'y' was computed otherwise" in str(report.sites[0].reason)
    assert PADDED not in report.rules
    assert_same_function(of, fused)
    assert operators(fused)[-1] == operators(of)[-1]
    assert np.isfinite(report.check.worst or 0)
