"""A model is timed on runtimes beside its source, at sizes that it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ffn_export.bundle.describe import summarise_latency
from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, from_module
from ffn_export.latency.gate import latency_failures
from ffn_export.latency.measure import measure
from ffn_export.latency.result import LatencyResult
from ffn_export.latency.sizes import default_sizes
from ffn_export.runtimes.base import Artifact


def test_sizes_are_one_token_one_sequence_and_the_example() -> None:
    specs = parse_inputs({"x": "float32[batch,seq<=64,4]"})
    assert default_sizes(specs) == [{"batch": 1, "seq": 1}, {"batch": 1, "seq": 64}, {"batch": 8, "seq": 64}]
    assert default_sizes(specs, {"batch": 2, "seq": 3})[-1] == {"batch": 2, "seq": 3}
    assert default_sizes(parse_inputs({"x": "float32[2,4]"})) == [{}, {}, {}]


@pytest.mark.slow
def test_measurement_has_both_competitors_equal_threads_and_survives_json(
    source: Callable[[str], Source], fused_file: Callable[..., Path]
) -> None:
    subject = source("d2l-ffn")
    artifact = Artifact(fused_file("d2l-ffn"), subject)
    result = measure(artifact, subject.inputs, [{"batch": 1, "seq": 1}, {"batch": 2, "seq": 3}], threads=1, budget=0.05)
    assert [m.label for m in result.measurements] == ["batch=1,seq=1", "batch=2,seq=3"]
    for measurement in result.measurements:
        assert {timing.runtime for timing in measurement.timings} == {"torch", "ort-cpu"}
        (ratio,) = measurement.ratios
        assert (ratio.runtime, ratio.baseline) == ("ort-cpu", "torch")
        assert ratio.low <= ratio.value <= ratio.high
    assert result.environment is not None
    assert result.environment.threads == 1
    assert LatencyResult.from_dict(result.to_dict()) == result
    told = [r.value for m in result.measurements for r in m.ratios if r.verdict != "inconclusive"]
    worst = result.worst_ratio()
    assert (None if worst is None else worst.value) == max(told, default=None)


@pytest.mark.slow
def test_the_default_session_on_the_export_is_timed_beside_the_model(
    source: Callable[[str], Source], fused_file: Callable[..., Path]
) -> None:
    subject = source("d2l-ffn")
    artifact, exported = Artifact(fused_file("d2l-ffn"), subject), export_source(subject)
    sizes, named = [{"batch": 1, "seq": 3}], ["ort-cpu"]
    result = measure(artifact, subject.inputs, sizes, threads=1, budget=0.05, exported=lambda: exported, runtimes=named)
    (measurement,) = result.measurements
    assert [timing.label for timing in measurement.timings] == ["torch", "ort-cpu", "ort-cpu default"]
    assert [(ratio.label, ratio.baseline) for ratio in measurement.ratios] == [("ort-cpu", "torch")]
    assert [(ratio.label, ratio.baseline) for ratio in measurement.over_default] == [("ort-cpu", "ort-cpu default")]
    assert LatencyResult.from_dict(result.to_dict()) == result
    told = summarise_latency(result)["measurements"][0]
    assert list(told["ratio_over_default"]) == ["ort-cpu"]


def test_nothing_is_exported_for_a_default_session_that_is_not_timed(
    source: Callable[[str], Source], fused_file: Callable[..., Path]
) -> None:
    subject = source("d2l-ffn")
    artifact, calls = Artifact(fused_file("d2l-ffn"), subject), []
    result = measure(artifact, subject.inputs, [{}], budget=0.01, exported=lambda: calls.append(1), runtimes=["torch"])
    assert [timing.label for timing in result.measurements[0].timings] == ["torch"]
    assert calls == []


def test_an_axis_that_is_not_there(fused_file: Callable[..., Path]) -> None:
    specs = parse_inputs({"x": "float32[batch,seq,4]"})
    with pytest.raises(UsageError, match="no symbolic axis is called 'sequence'; they are batch, seq"):
        measure(Artifact(fused_file("d2l-ffn")), specs, [{"sequence": 128}], budget=0.01)


@pytest.mark.slow
def test_pytorch_has_its_threads_back(source: Callable[[str], Source], fused_file: Callable[..., Path]) -> None:
    before = torch.get_num_threads()
    subject = source("d2l-ffn")
    measure(Artifact(fused_file("d2l-ffn"), subject), subject.inputs, [{}], threads=before + 1, budget=0.01)
    assert torch.get_num_threads() == before


@pytest.mark.slow
def test_torch_asked_for_by_name_without_a_module_is_unavailable(fused_file: Callable[..., Path]) -> None:
    specs = parse_inputs({"x": "float32[batch,seq,4]"})
    with pytest.raises(RuntimeUnavailableError):
        measure(Artifact(fused_file("d2l-ffn")), specs, [{}], runtimes=["torch"], budget=0.01)
    result = measure(Artifact(fused_file("d2l-ffn")), specs, [{}], budget=0.01)
    assert "torch" in result.unavailable
    assert [t.runtime for t in result.measurements[0].timings] == ["ort-cpu"]


@pytest.mark.slow
def test_who_refuses_a_size_is_left_out_there_and_nobody_else(fused_file: Callable[..., Path]) -> None:
    """The module takes three positions at most, the graph any number."""
    short = from_module(Positions(), {"x": "float32[batch,seq,4]"})
    sizes = [{"batch": 1, "seq": 3}, {"batch": 1, "seq": 5}]
    result = measure(Artifact(fused_file("d2l-ffn"), short), short.inputs, sizes, threads=1, budget=0.02)
    assert [[timing.runtime for timing in m.timings] for m in result.measurements] == [
        ["torch", "ort-cpu"],
        ["ort-cpu"],
    ]
    (where,) = (name for name in result.unavailable if name.startswith("torch"))
    assert where == "torch at batch=1,seq=5"
    failure, *_ = latency_failures(result, max_ratio=1e6)
    assert failure.startswith("torch at batch=1,seq=5 was not timed: ")
    assert latency_failures(result, max_ratio=None) == ()


class Positions(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > 3:
            raise ValueError("there are three positions")
        return x * 2
