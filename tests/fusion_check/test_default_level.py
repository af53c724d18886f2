"""The check also runs the fused graph as a user's session rewrites it."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from ffn_export.fusion import pipeline
from ffn_export.fusion.pipeline import Fusion
from ffn_export.fusion_check.check import fuse_checked
from tests.fusion.graphs import model

TWO = "float[batch,seq,8] x, float[batch,seq,8] r"
ROW = "float[8] w = {1,2,3,4,5,6,7,8}, float[1] one = {1.5}"
WRONG = "h = Add(x, r) n = LayerNormalization<axis = 1>(h, w)"


@pytest.fixture
def rewriting_with_add(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewriting of ours that is right node by node, and that ONNX Runtime's own fusion makes wrong."""
    rewrite = pipeline.rewrite

    def breaking(given: ir.Model, *rest: object, **named: object) -> Fusion:
        fusion = rewrite(given, *rest, **named)  # type: ignore[arg-type]
        for node in fusion.model.graph:
            if node.op_type == "Sum":
                node.op_type = "Add"
        return fusion

    monkeypatch.setattr("ffn_export.fusion_check.check.rewrite", breaking)


@pytest.mark.usefixtures("rewriting_with_add")
def test_graph_that_the_default_level_breaks_is_undone() -> None:
    of = model("h = Sum(x, r) n = LayerNormalization<axis = 1>(h, w) s = Sigmoid(n) y = Mul(n, s)", ROW, inputs=TWO)
    _, report = fuse_checked(of, "portable")
    assert report.check.status == "rolled back"
    assert "default level" in str(report.check.reason)


@pytest.mark.usefixtures("rewriting_with_add")
def test_model_that_is_broken_there_itself_is_no_fault_of_fusing() -> None:
    of = model(f"{WRONG} s = Sigmoid(n) y = Mul(n, s)", ROW, inputs=TWO)
    fused, report = fuse_checked(of, "portable")
    assert report.check.status == "passed"
    assert [node.op_type for node in fused.graph] == ["Add", "LayerNormalization", "Swish"]


def test_sum_that_the_default_level_breaks_is_written_so_that_it_holds() -> None:
    of = model(f"{WRONG} s = Sigmoid(n) y = Mul(n, s)", ROW, inputs=TWO)
    fused, report = fuse_checked(of, "portable")
    assert report.check.status == "passed"
    assert report.rules == {"norm-of-sum": 1, "swish": 1}
    assert [node.op_type for node in fused.graph] == ["Sum", "LayerNormalization", "Swish"]
