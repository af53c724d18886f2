"""The report says what became of each site and why, and survives JSON."""

from __future__ import annotations

import json

import onnx_ir as ir
import pytest

from ffn_export.errors import UsageError
from ffn_export.fusion.pipeline import fuse, fusion_failures
from ffn_export.fusion.report import KINDS, FusionReport, Site
from ffn_export.fusion.targets import TARGETS, get_target
from tests.fusion.graphs import model

WEIGHTS = (
    f"float[8,16] w1 = {{{','.join(['0.1'] * 128)}}}, float[16,8] w2 = {{{','.join(['0.1'] * 128)}}}, "
    "float[8] g = {1,1,1,1,1,1,1,1}, float[16] b1 = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}"
)
BLOCK = """
    m = MatMul(x, w1) h = Add(m, b1) s = Sigmoid(h) a = Mul(h, s) o = MatMul(a, w2) r = Add(x, o)
    y = LayerNormalization(r, g)
"""


@pytest.fixture
def report() -> FusionReport:
    return fuse(model(BLOCK, WEIGHTS, opset=20), "ort-cpu")[1]


def test_sites(report: FusionReport) -> None:
    feed_forward, norm, residual = report.sites
    assert feed_forward == Site(
        "feed_forward:0",
        "feed_forward",
        "MatMul",
        "rewritten",
        "MatMul Add QuickGelu MatMul",
        rule="quick-gelu",
        activation="silu",
        gated=False,
        d_model=8,
        d_ff=16,
    )
    assert (norm.id, norm.status, norm.reason, norm.d_model) == ("norm:0", "already optimal", None, 8)
    assert (residual.id, residual.kind, residual.status) == ("residual_norm:0", "residual_norm", "kept")
    assert residual.reason == TARGETS["ort-cpu"].kept["residual_norm"]
    assert residual.form == "Add LayerNormalization"


def test_counts(report: FusionReport) -> None:
    assert report.nodes == {"before": 7, "after": 6}
    assert report.opset == {"before": 20, "after": 20}
    assert report.rules == {"quick-gelu": 1}
    assert [report.count(kind) for kind in KINDS] == [1, 1, 0]
    assert report.count("residual_norm", "kept") == 1


def test_explain(report: FusionReport) -> None:
    assert report.explain().splitlines()[:2] == [
        "feed_forward:0 rewritten: MatMul Add QuickGelu MatMul",
        "norm:0 already optimal: LayerNormalization",
    ]


def test_json_and_back(report: FusionReport) -> None:
    data = json.loads(json.dumps(report.to_dict()))
    assert FusionReport.from_dict(data) == report
    assert set(data) == {"format", "target", "sites", "rules", "nodes", "opset", "check", "problem", "outlined"}
    assert set(data["sites"][0]) == {
        "id",
        "kind",
        "name",
        "status",
        "form",
        "rule",
        "reason",
        "evidence",
        "activation",
        "gated",
        "d_model",
        "d_ff",
    }


def test_requirement_counts_what_is_rewritten_or_came_so_and_lists_what_is_missing(report: FusionReport) -> None:
    assert fusion_failures(report, {"feed_forward": 1, "norm": 1, "residual_norm": 0}) == ()
    first, missing = fusion_failures(report, {"feed_forward": 1, "residual_norm": 1})
    assert first == "0 of 1 residual_norm sites are in the target's form, 1 required"
    reason = TARGETS["ort-cpu"].kept["residual_norm"]
    assert missing == f"residual_norm:0 is kept, LayerNormalization: {reason}"


def test_refusal_is_numbered_after_the_sites_of_its_kind() -> None:
    refused = BLOCK + " k = Sigmoid(y) z = Mul(y, k)"
    outputs = "float[batch,seq,8] z, float[batch,seq,8] k"
    _, report = fuse(model(refused, WEIGHTS, outputs=outputs), "portable")
    assert [site.id for site in report.sites] == ["feed_forward:0", "norm:0", "residual_norm:0", "feed_forward:1"]
    refusal = report.sites[-1]
    assert (refusal.status, refusal.form, refusal.rule) == ("refused", "Sigmoid Mul", "swish")
    assert report.explain().endswith("feed_forward:1 refused: Sigmoid Mul (intermediate 'k' is a graph output)")


@pytest.mark.parametrize(
    ("argument", "activation", "words"),
    [
        ("h", "silu", "decomposed into 2 nodes: Sigmoid Mul"),
        ("Mul(h, k)", "quick_gelu", "decomposed into 3 nodes: Mul Sigmoid Mul"),
        ("Mul(k, h)", "quick_gelu", "decomposed into 3 nodes: Mul Sigmoid Mul"),
    ],
)
def test_a_decomposed_activation_is_refused_with_its_feed_forward_and_says_why(
    argument: str, activation: str, words: str
) -> None:
    sigmoid = "s = Sigmoid(h)" if argument == "h" else f"t = {argument} s = Sigmoid(t)"
    of = model(BLOCK.replace("s = Sigmoid(h)", sigmoid), WEIGHTS + ", float k = {1.702}", opset=25)
    _, report = fuse(of, "portable")
    (feed_forward,) = (site for site in report.sites if site.kind == "feed_forward")
    assert (feed_forward.status, feed_forward.activation) == ("refused", activation)
    assert feed_forward.reason == f"{activation} is {words}; onnxruntime runs no Swish in a graph of opset 25"


def test_nothing_found() -> None:
    _, report = fuse(model("y = Neg(x)"), "portable")
    assert report.explain() == "no feed-forward, norm or residual + norm was found"
    assert report.sites == ()


def test_unknown_target() -> None:
    with pytest.raises(UsageError, match=r"unknown target 'portabel'; did you mean 'portable'\? known are portable"):
        fuse(model("y = Neg(x)"), "portabel")
    assert get_target("ort-cpu").name == "ort-cpu"


def test_the_callers_model_keeps_its_bytes() -> None:
    """Also names of tensors in its nodes, which a copy of the graph shares."""
    of = model("two = Constant<value = float {2}>() k = Pow(x, two) y = Mul(k, two)")
    before = ir.to_proto(of).SerializeToString()
    fuse(of, "ort")
    assert ir.to_proto(of).SerializeToString() == before


def test_a_part_of_a_site_that_is_refused_is_no_site_of_its_own() -> None:
    of = model(BLOCK.replace("s = Sigmoid(h) a = Mul(h, s)", "a = Relu(h)"), WEIGHTS, opset=13)
    _, report = fuse(of, "ort")
    (site,) = (site for site in report.sites if site.kind == "feed_forward")
    assert (site.status, site.rule) == ("refused", "fused-gemm")
    assert str(site.reason).endswith("reshaping to rows and back needs opset 14")


def test_an_old_report_is_refused(report: FusionReport) -> None:
    with pytest.raises(UsageError, match="no fusion report of format 2"):
        FusionReport.from_dict({**report.to_dict(), "format": 1})


def test_a_fused_graph_is_optimal_when_it_is_fused_again(report: FusionReport) -> None:
    fused, _ = fuse(model(BLOCK, WEIGHTS, opset=20), "ort-cpu")
    again = fuse(fused, "ort-cpu")[1]
    assert [site.status for site in again.sites] == ["already optimal", "already optimal", "kept"]
    assert again.sites[0].rule == "quick-gelu"  # the note of the first fusion
