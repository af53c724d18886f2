"""A fault in a form by rows is seen, undone and said, as one of a rule is."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.fusion.builder import Builder
from ffn_export.fusion.forms.by_rows import row_chunks
from ffn_export.fusion.forms.by_rows.copy import write
from ffn_export.fusion.functions.site_reading import Reading
from ffn_export.fusion_check.check import fuse_checked
from tests.fusion.feed_forwards import PLAIN, feed_forward
from tests.fusion.graphs import assert_same_function, operators


def test_a_faulty_form_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(op: Builder, x: ir.Value, *, reading: Reading) -> ir.Value:
        y = write(op, x, reading=reading)
        negated = op.Neg(y)
        negated.type, negated.shape = y.type, y.shape
        return negated

    of, forms = feed_forward(PLAIN), [row_chunks.NAME]
    assert fuse_checked(of, "ort-cpu", forms=forms)[1].check.status == "passed"
    monkeypatch.setattr(row_chunks, "write", wrong)
    fused, report = fuse_checked(of, "ort-cpu", forms=forms)
    assert report.check.status == "rolled back"
    assert [(site.kind, site.status) for site in report.sites] == [("feed_forward", "rolled back")]
    assert "'y' was computed otherwise" in str(report.sites[0].reason)
    assert operators(fused) == operators(of)
    assert_same_function(of, fused)
