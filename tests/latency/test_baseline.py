"""A timing held against an earlier one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ffn_export.core.words import size_label
from ffn_export.latency.baseline import compare, compare_twice
from ffn_export.latency.result import LatencyResult, Measurement, Ratio
from ffn_export.runtimes.environment import Environment

HERE = Environment({"onnxruntime": "1.30.0"}, "a processor", "Linux x86_64", 2)


def timed(low: float, high: float, *, runtime: str = "ort-cpu", batch: int = 1) -> LatencyResult:
    ratio = Ratio(runtime, "torch", (low + high) / 2, low, high)
    return LatencyResult("m.onnx", "torch", (Measurement({"batch": batch}, (), (ratio,)),), environment=HERE)


def test_intervals_that_overlap_are_no_regression() -> None:
    found = compare(timed(0.50, 0.60), timed(0.59, 0.70))
    assert found.passed
    assert found.compared == 1


def test_an_interval_wholly_above_the_earlier_one() -> None:
    assert compare(timed(0.50, 0.60), timed(0.62, 0.70)).failures == (
        "ort-cpu at batch=1: takes 0.66 x torch (0.62 to 0.7), was 0.55 (0.5 to 0.6)",
    )
    assert compare(timed(0.62, 0.70), timed(0.50, 0.60)).passed  # faster


def test_what_seems_slower_is_timed_again() -> None:
    old, slower = timed(0.50, 0.60), timed(0.62, 0.70)
    assert compare_twice(old, slower, lambda: timed(0.52, 0.58)).passed
    assert not compare_twice(old, slower, lambda: timed(0.61, 0.69)).passed

    def never() -> LatencyResult:
        raise AssertionError("timed again without a reason")

    assert compare_twice(old, timed(0.50, 0.61), never).passed


@pytest.mark.parametrize("sizes", [{"batch": 1}, {}])
def test_what_was_timed_and_is_refused_now(sizes: dict[str, int]) -> None:
    old = replace(timed(0.5, 0.6), measurements=(Measurement(sizes, (), (Ratio("ort-cpu", "torch", 0.5, 0.5, 0.6),)),))
    new = replace(timed(0.5, 0.6, runtime="openvino"), unavailable={f"ort-cpu at {size_label(sizes)}": "no kernel"})
    (failure,) = compare(old, new).failures
    assert failure.endswith("was timed in the baseline and is unavailable: no kernel")


def test_another_place_is_noted_and_not_judged() -> None:
    moved = replace(timed(0.9, 0.95), environment=replace(HERE, processor="another", threads=8))
    found = compare(timed(0.50, 0.60), moved)
    assert found.notes == (
        "latency is not judged: the baseline was timed with another processor and threads",
        "processor a processor -> another",
        "threads 2 -> 8",
    )
    assert not found.passed  # alone, it is a gate that compared nothing


def test_other_versions_are_judged_and_noted() -> None:
    newer = replace(timed(0.9, 0.95), environment=replace(HERE, versions={"onnxruntime": "1.31.1"}))
    found = compare(timed(0.50, 0.60), newer)
    assert not found.passed
    assert found.notes == ("onnxruntime 1.30.0 -> 1.31.1",)


def test_a_runtime_that_cannot_be_timed_any_more() -> None:
    gone = replace(timed(0.5, 0.6, runtime="other"), unavailable={"ort-cpu": "no kernel"})
    assert compare(timed(0.5, 0.6), gone).failures == (
        "ort-cpu at batch=1: was timed in the baseline and is unavailable: no kernel",
    )


def test_sizes_and_runtimes_that_were_not_asked_are_noted() -> None:
    assert compare(timed(0.5, 0.6, batch=8), timed(0.5, 0.6)).notes == (
        "ort-cpu at batch=8 was timed in the baseline and not now",
    )
    assert compare(timed(0.5, 0.6), timed(0.5, 0.6, runtime="other")).notes == (
        "ort-cpu was timed in the baseline and was not asked now",
    )


def test_a_timing_without_pytorch_has_no_ratios_to_compare() -> None:
    bare = replace(timed(0.5, 0.6), baseline="")
    assert "without PyTorch" in compare(bare, timed(0.5, 0.6)).failures[0]
