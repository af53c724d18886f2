"""Times with copies beside those without: a competitor of its own, shown apart, and judged by nothing.

The device here is the CPU: a real session of ONNX Runtime whose runner makes the copies that a GPU would need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ffn_export.bundle.describe import summarise_latency
from ffn_export.core.types import Array
from ffn_export.exporter.source import Source
from ffn_export.latency.baseline import compare
from ffn_export.latency.competitors import Competitor
from ffn_export.latency.gate import latency_failures
from ffn_export.latency.interleaving import Runs
from ffn_export.latency.measure import measure
from ffn_export.latency.result import LatencyResult, Measurement, Ratio, Timing
from ffn_export.latency.sessions import SESSIONS
from ffn_export.latency.statistics import ratios
from ffn_export.runtimes import registry
from ffn_export.runtimes.base import Artifact, CopyingRunner, Runner
from ffn_export.runtimes.environment import Environment
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.ort_session import OrtRunner, make_session

HERE = Environment({"onnxruntime": "1.30.0"}, "a processor", "Linux x86_64", 2)
SIZES = {"batch": 1, "seq": 3}


class Copying(OrtRunner):
    """A session whose inputs and outputs are copied, from the CPU to the CPU."""

    def prepare_with_copies(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        return lambda: self.run({name: array.copy() for name, array in feeds.items()})


class NoRoom(Copying):
    """One that runs where its inputs are, and has no memory for copies."""

    def prepare_with_copies(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        def call() -> None:
            raise MemoryError("no room for the copies")

        return call


class Device(OrtCpu):
    """A runtime of such sessions."""

    name = "device"

    def __init__(self, runner: type[Copying]) -> None:
        self.runner = runner
        self.loaded: list[Copying] = []

    def load(self, artifact: Artifact, threads: int) -> Runner:
        assert artifact.model_path is not None
        self.loaded.append(self.runner(make_session(artifact.model_path, artifact.settings, threads)))
        return self.loaded[-1]


@pytest.fixture
def timed(
    monkeypatch: pytest.MonkeyPatch, source: Callable[[str], Source], fused_file: Callable[..., Path]
) -> Callable[[Device], LatencyResult]:
    """Time d2l-ffn on a device, beside PyTorch and the runtime ort-cpu."""

    def measured(device: Device) -> LatencyResult:
        monkeypatch.setattr(registry, "RUNTIMES", {**registry.RUNTIMES, device.name: device})
        artifact = Artifact(fused_file("d2l-ffn"), source("d2l-ffn"))
        names = ["ort-cpu", device.name]
        return measure(artifact, source("d2l-ffn").inputs, [SIZES], runtimes=names, threads=1, budget=0.05)

    return measured


@pytest.mark.slow
def test_copies_are_a_competitor_of_their_own(timed: Callable[[Device], LatencyResult]) -> None:
    device = Device(Copying)
    result = timed(device)
    (measurement,) = result.measurements
    assert [timing.label for timing in measurement.timings] == ["torch", "ort-cpu", "device", "device with copies"]
    assert [timing.copies for timing in measurement.timings] == [False, False, False, True]
    assert len({timing.rounds for timing in measurement.timings}) == 1  # all in the same rounds
    assert [(ratio.label, ratio.baseline) for ratio in measurement.ratios] == [
        ("ort-cpu", "torch"),
        ("device", "torch"),
        ("device with copies", "torch"),
    ]
    assert result.unavailable == {}
    assert len(device.loaded) == SESSIONS
    assert LatencyResult.from_dict(result.to_dict()) == result
    summary = summarise_latency(result)["measurements"][0]
    assert list(summary["median_ms"]) == ["torch", "ort-cpu", "device", "device with copies"]
    assert list(summary["ratio"]) == ["ort-cpu", "device", "device with copies"]


@pytest.mark.slow
def test_copies_that_fail_leave_the_rest(timed: Callable[[Device], LatencyResult]) -> None:
    result = timed(Device(NoRoom))
    assert [t.label for m in result.measurements for t in m.timings] == ["torch", "ort-cpu", "device"]
    assert result.unavailable == {"device with copies at batch=1,seq=3": "MemoryError: no room for the copies"}


def test_what_computes_on_the_host_has_no_copies(fused_file: Callable[..., Path]) -> None:
    assert not isinstance(OrtCpu().load(Artifact(fused_file("d2l-ffn")), 1), CopyingRunner)


def test_copies_are_held_against_a_baseline_with_copies_where_it_has_them() -> None:
    gpu, torch = Competitor("ort-cuda"), Competitor("torch-cuda")
    gpu_copies, torch_copies = replace(gpu, copies=True), replace(torch, copies=True)
    medians = {torch: 2.0, torch_copies: 8.0, gpu: 1.0, gpu_copies: 6.0}
    runs = {who: Runs(((median,),)) for who, median in medians.items()}
    assert ratios(runs, "torch-cuda") == (
        Ratio("ort-cuda", "torch-cuda", 0.5, 0.5, 0.5),
        Ratio("ort-cuda", "torch-cuda with copies", 0.75, 0.75, 0.75, copies=True),
    )
    del runs[torch_copies]
    assert ratios(runs, "torch-cuda")[1].baseline == "torch-cuda"
    assert ratios(runs, "") == ()


def result(without: float, with_copies: float | None = None) -> LatencyResult:
    """Return a timing of ort-cuda whose ratios have intervals of 2 % each."""
    found = [Ratio("ort-cuda", "torch", without, 0.99 * without, 1.01 * without)]
    if with_copies is not None:
        found.append(Ratio("ort-cuda", "torch", with_copies, 0.99 * with_copies, 1.01 * with_copies, copies=True))
    return LatencyResult("m.onnx", "torch", (Measurement({"batch": 1}, (), tuple(found)),), environment=HERE)


def test_the_gate_does_not_judge_copies() -> None:
    assert latency_failures(result(0.5, 3.0), 1.0) == ()
    assert len(latency_failures(result(1.5, 3.0), 1.0)) == 1
    worst = result(0.5, 3.0).worst_ratio()
    assert worst is not None
    assert not worst.copies


def test_a_baseline_notes_copies_that_take_longer() -> None:
    slower = compare(result(0.5, 2.0), result(0.5, 3.0))
    assert slower.passed
    assert slower.compared == 1
    assert slower.notes == (
        "ort-cuda with copies at batch=1 takes 3 x torch (2.97 to 3.03), was 2 (1.98 to 2.02), which is not judged",
    )
    assert compare(result(0.5, 2.0), result(0.5, 1.0)).notes == ()
    assert [r.where for r in compare(result(0.5, 2.0), result(0.9, 2.0)).regressions] == ["ort-cuda at batch=1"]


@pytest.mark.parametrize(("old", "new"), [(result(0.5), result(0.5, 3.0)), (result(0.5, 3.0), result(0.5))])
def test_a_timing_without_copies_is_compared_as_ever(old: LatencyResult, new: LatencyResult) -> None:
    found = compare(old, new)
    assert found.passed
    assert (found.compared, found.notes) == (1, ())


def test_what_was_stored_before_there_were_copies_is_read() -> None:
    measurement = Measurement({"batch": 1}, (Timing("ort-cuda", 1e-3, 2e-3, 3e-3, 12, accelerated=True),), ())
    stored = replace(result(0.5), measurements=(*result(0.5).measurements, measurement)).to_dict()
    for one in stored["measurements"]:
        for entry in (*one["timings"], *one["ratios"]):
            del entry["copies"]
    read = LatencyResult.from_dict(stored)
    assert [ratio.label for m in read.measurements for ratio in m.ratios] == ["ort-cuda"]
    assert [timing.copies for m in read.measurements for timing in m.timings] == [False]
