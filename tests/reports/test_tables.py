"""Each table says what its result says."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from ffn_export.fusion.report import FusionReport
from ffn_export.latency.result import Ceilings, LatencyResult
from ffn_export.parity.judging.measures import OutputMetrics
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.reports.tables import fusion_table, latency_table, parity_table

MakeCase = Callable[..., CaseResult]
MakeParity = Callable[..., ParityResult]


def printed(renderable: RenderableType) -> list[str]:
    """Return the lines that a pipe gets."""
    stream = io.StringIO()
    Console(file=stream, width=10_000, force_terminal=False).print(renderable)
    return stream.getvalue().splitlines()


def row(renderable: RenderableType, start: str) -> list[str]:
    """Return the cells of the first row that starts with a word."""
    line = next(line for line in printed(renderable) if line.startswith(start + " "))
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_parity_shows_one_row_a_runtime(failed: ParityResult) -> None:
    table = parity_table(failed)
    assert row(table, "ort-cpu") == [
        "ort-cpu",
        "failed",
        "1",
        "0",
        "1",
        "1",
        "292.40",
        "8.00",
        "36.55",
        "1.30",
        "batch=3,seq=5 large",
    ]
    assert row(table, "openvino") == ["openvino", "failed", "0", "0", "1", "0", "raised", "loading the model"]
    assert row(table, "ort-cuda") == ["ort-cuda", "unavailable", "the GPU wheel of onnxruntime is not installed"]
    assert row(table, "interface") == [
        "interface",
        "failed",
        "output 'y' has axes [batch, 5, 768], the spec says [batch, seq, 768]",
    ]
    assert row(table, "weights") == ["weights", "failed", "initializers traced to parameters: 2, differing: 1"]


def test_parity_headline_and_failures(passed: ParityResult, failed: ParityResult) -> None:
    assert printed(parity_table(passed))[0] == "parity of bert-ffn.onnx against bert-ffn: passed"
    lines = printed(parity_table(failed))
    assert lines[0].endswith("FAILED")
    assert set(failed.failures) <= set(lines)


def test_parity_shows_a_warning_with_its_factor(warned: ParityResult) -> None:
    table = parity_table(warned)
    assert row(table, "ort-cpu") == [
        "ort-cpu",
        "warned",
        "1",
        "1",
        "0",
        "0",
        "12.00",
        "8.00",
        "1.50",
        "1.30",
        "batch=3,seq=5 offset",
    ]
    lines = printed(table)
    assert lines[0] == "parity of bert-ffn.onnx against bert-ffn: passed, 1 warned"
    assert f"warned: {warned.warnings[0]}" in lines


def test_parity_worst_is_the_nearest_to_its_own_bound(case: MakeCase, parity: MakeParity) -> None:
    table = parity_table(parity(case("far from it", 30, baseline=20), case("over it", 9, baseline=1)))
    assert row(table, "ort-cpu")[-5:] == ["9.00", "8.00", "1.12", "1.00", "over it"]


def test_parity_nan_error_is_failed(case: MakeCase, parity: MakeParity) -> None:
    table = parity_table(parity(case("bad", math.nan), case("good", 1.0)))
    assert row(table, "ort-cpu")[:7] == ["ort-cpu", "failed", "1", "0", "1", "0", "NaN"]


def test_parity_unexpected_nan_and_wrong_shape_are_failed(parity: MakeParity) -> None:
    surprise = CaseResult("a", "c", {}, "normal", 0, (OutputMetrics("y", "float32", unexpected=2),))
    problem = CaseResult("b", "c", {}, "normal", 0, (OutputMetrics("y", problem="shape [1], expected [2]"),))
    table = parity_table(parity(surprise, problem))
    assert row(table, "a")[1:7] == ["failed", "0", "0", "1", "0", "NaN or infinite"]
    assert row(table, "b")[1:7] == ["failed", "0", "0", "1", "0", "not comparable"]


def test_parity_exact_tolerances_do_not_divide_by_zero(case: MakeCase, parity: MakeParity) -> None:
    result = parity(case("c", 0.0, baseline=0.0)).rejudged(Tolerances(floor_ulps=0.0))
    assert row(parity_table(result), "ort-cpu")[1] == "passed"


def test_parity_lists_ten_failures_and_counts_the_rest(case: MakeCase, parity: MakeParity) -> None:
    lines = printed(parity_table(parity(*(case(f"case {i}", 100.0) for i in range(13)))))
    assert sum(line.startswith("ort-cpu, case") for line in lines) == 10
    assert "… and 3 more" in lines


def test_parity_nothing_judged_says_so(passed: ParityResult) -> None:
    lines = printed(parity_table(replace(passed, cases=())))
    assert lines[0].endswith("FAILED")
    assert "no runtime could judge the model (none was asked)" in lines


def test_fusion_says_why(fusion: FusionReport) -> None:
    lines = printed(fusion_table(fusion))
    assert lines[0] == (
        "target ort-cpu; nodes 50 -> 31; opset 18 -> 20; feed_forward 1 rewritten; norm 1 already optimal, 1 refused"
    )
    shown = row(fusion_table(fusion), "feed_forward:0")[1:5]
    assert shown == ["rewritten", "768", "3072", "MatMul BiasGelu MatMul Add"]
    assert row(fusion_table(fusion, verbose=True), "norm:0")[-1] == "encoder.norm[0]/node_layer_norm"
    assert row(fusion_table(fusion), "norm:1")[-2:] == ["rms_norm: epsilon is no scalar", "node_Div_7"]


def test_sites_that_are_alike_share_a_row(fusion: FusionReport) -> None:
    kept = replace(
        fusion.sites[1], id="residual_norm:0", kind="residual_norm", status="kept", reason="faster apart here"
    )
    many = tuple(replace(kept, id=f"residual_norm:{n}", name=f"norm {n}", evidence="9 ns") for n in range(13))
    report = replace(fusion, sites=many)
    assert row(fusion_table(report), "residual_norm") == [
        "residual_norm ×13",
        "kept",
        "LayerNormalization",
        "faster apart here",
    ]
    listed = row(fusion_table(report, verbose=True), "residual_norm:12")
    assert listed[-2:] == ["faster apart here: 9 ns", "norm 12"]


@pytest.mark.slow
def test_a_thousand_sites_are_shown_and_the_others_counted(fusion: FusionReport) -> None:
    sites = tuple(replace(fusion.sites[0], id=f"feed_forward:{number}") for number in range(1002))
    lines = printed(fusion_table(replace(fusion, sites=sites), verbose=True))
    assert sum(line.startswith("feed_forward:") for line in lines) == 1000
    assert lines[-2] == "and 2 more, which the report in JSON has"


def test_fusion_without_sites() -> None:
    assert "no feed-forward, norm or residual + norm was found" in printed(fusion_table(FusionReport("ort", ())))


def test_latency_with_copies_has_rows_of_its_own(latency: LatencyResult, gpu_latency: LatencyResult) -> None:
    lines = [" ".join(line.split()) for line in printed(latency_table(gpu_latency, verbose=True))]
    assert "batch=8,seq=128 ort-cuda 1.000 1.100 1.200 1,024,000 9,663.7 0.500 0.400 to 0.600 50 faster" in lines
    assert (
        "batch=8,seq=128 ort-cuda with copies 4.000 4.200 4.400 256,000 2,415.9 2.000 1.900 to 2.100 50 slower" in lines
    )
    assert lines[-3].startswith("with copies: inputs and outputs are in host memory")
    assert not any("copies" in line for line in printed(latency_table(latency)))


def test_latency_names_units_ties_and_machine(latency: LatencyResult) -> None:
    lines = printed(latency_table(latency, verbose=True))
    assert sum("(ms)" in line for line in lines) == 1
    rows = [line for line in lines if "ort-cpu" in line]
    assert (
        " ".join(rows[0].split())
        == "batch=8,seq=128 ort-cpu 15.200 15.800 17.100 67,368 635.8 0.64 0.07 0.714 0.702 to 0.731 50 faster"
    )
    assert rows[1].split()[-1] == "tie"
    assert next(line for line in lines if "openvino" in line).endswith(
        "openvino unavailable: openvino is not installed"
    )
    assert lines[-2].startswith("limits: products at 1,000.0 GFLOP/s (GEMM), weights, inputs and outputs moved once at")
    assert lines[-1].startswith("AMD EPYC 9654 96-Core Processor, 8 threads, Linux x86_64")


def test_a_host_that_was_busy_is_named_with_what_it_took(latency: LatencyResult) -> None:
    first, second = latency.measurements
    busy = replace(latency, measurements=(replace(first, stolen=0.312), replace(second, stolen=0.04)))
    said = [line for line in printed(latency_table(busy)) if "host" in line]
    assert said == [
        "the host gave of the processors' time to others 31% at batch=8,seq=128: times there say little, measure again"
    ]
    assert not any("host" in line for line in printed(latency_table(latency)))


def test_a_share_above_the_machine_s_limit_is_explained(latency: LatencyResult) -> None:
    slow = replace(latency, ceilings=Ceilings(operations=1e11, bytes=2e10))
    assert any(
        "where a share is above 1, bytes stayed in a cache" in line
        for line in printed(latency_table(slow, verbose=True))
    )
    assert not any("above 1" in line for line in printed(latency_table(latency)))


def test_what_became_one_node_is_counted() -> None:
    report = FusionReport("ort-cpu", (), rules={"attention": 12, "layer-norm": 2, "rotary": 24})
    lines = printed(fusion_table(report))
    assert [line for line in lines if "as one node" in line] == [
        "attention as one node: 12",
        "rotary positions as one node: 24",
    ]
    assert not any("as one node" in line for line in printed(fusion_table(replace(report, rules={}))))
