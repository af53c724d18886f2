from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ffn_export.errors import RuntimeUnavailableError
from ffn_export.exporter.source import Source
from ffn_export.exporter.tensor_spec import parse_inputs
from ffn_export.latency.competitors import Competitor
from ffn_export.latency.measure import BLOCK, MIN_ROUNDS, MIN_WARM_UP, Pace, interleave, measure
from ffn_export.latency.result import LatencyResult, Ratio
from ffn_export.latency.sizes import default_sizes
from ffn_export.latency.statistics import paired_ratio, summarise
from ffn_export.runtimes.base import Artifact

OURS, TORCH = Competitor("ours"), Competitor("torch")


def test_percentiles_are_those_of_the_runs() -> None:
    timing = summarise(Competitor("ort-cpu"), [i / 1000 for i in range(1, 102)])
    assert timing.median == pytest.approx(0.051)
    assert timing.p90 == pytest.approx(0.091)
    assert timing.p99 == pytest.approx(0.1)
    assert timing.rounds == 101


def test_ratio_of_a_real_difference_excludes_one_and_noise_is_a_tie() -> None:
    noise = np.random.default_rng(0).normal(1.0, 0.05, 200)
    faster = paired_ratio(OURS, list(0.5 * noise), TORCH, list(noise))
    assert faster.value == pytest.approx(0.5)
    assert faster.high < 0.55
    assert not faster.is_tie
    other = np.random.default_rng(1).normal(1.0, 0.05, 200)
    assert paired_ratio(OURS, list(other), TORCH, list(noise)).is_tie


def test_what_slows_both_at_once_does_not_widen_the_interval() -> None:
    load = np.repeat([1.0, 3.0], 50)
    ratio = paired_ratio(OURS, list(0.7 * load), TORCH, list(load))
    assert ratio.low == pytest.approx(0.7)
    assert ratio.high == pytest.approx(0.7)


def test_competitors_run_in_turn_after_a_warm_up() -> None:
    order: list[str] = []
    seconds = interleave({name: [partial(order.append, name)] for name in ("a", "b", "c")}, budget=0.0)
    assert all(len(times) == BLOCK * MIN_ROUNDS for times in seconds.values())
    in_blocks = order[-3 * (BLOCK + 1) * MIN_ROUNDS :]
    assert len(order) - len(in_blocks) >= 3 * MIN_WARM_UP
    blocks = [in_blocks[i : i + BLOCK + 1] for i in range(0, len(in_blocks), BLOCK + 1)]
    assert all(len(set(block)) == 1 for block in blocks)
    assert [block[0] for block in blocks[:9]] == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]


def test_competitors_that_have_just_run_are_timed_at_once_and_one_run_at_a_time() -> None:
    order: list[str] = []
    pace = Pace(warm_up=0, rounds=2, most_rounds=9, block=1, untimed=0)
    seconds = interleave({name: [partial(order.append, name)] for name in ("a", "b")}, 5.0, pace)
    assert order == ["a", "b", "b", "a"]
    assert all(len(times) == 2 for times in seconds.values())


def test_a_slower_competitor_is_seen() -> None:
    seconds = interleave({"fast": [lambda: time.sleep(0.001)], "slow": [lambda: time.sleep(0.004)]}, budget=0.1)
    assert np.median(seconds["slow"]) > 2 * np.median(seconds["fast"])


def test_sessions_of_a_competitor_take_turns() -> None:
    order: list[str] = []
    calls = {"a": [partial(order.append, "a1"), partial(order.append, "a2")], "b": [partial(order.append, "b")]}
    interleave(calls, budget=0.0)
    blocks = order[-2 * (BLOCK + 1) * MIN_ROUNDS :][:: BLOCK + 1]
    assert blocks == ["a1", "b", "b", "a2"] * (MIN_ROUNDS // 2)


def test_sizes_are_one_token_one_sequence_and_the_example() -> None:
    specs = parse_inputs({"x": "float32[batch,seq<=64,4]"})
    assert default_sizes(specs) == [{"batch": 1, "seq": 1}, {"batch": 1, "seq": 64}, {"batch": 8, "seq": 64}]
    assert default_sizes(specs, {"batch": 2, "seq": 3})[-1] == {"batch": 2, "seq": 3}
    assert default_sizes(parse_inputs({"x": "float32[2,4]"})) == [{}, {}, {}]


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
    worst = result.worst_ratio()
    assert isinstance(worst, Ratio)
    assert worst.value == max(r.value for m in result.measurements for r in m.ratios)


def test_torch_asked_for_by_name_without_a_module_is_unavailable(fused_file: Callable[..., Path]) -> None:
    specs = parse_inputs({"x": "float32[batch,seq,4]"})
    with pytest.raises(RuntimeUnavailableError):
        measure(Artifact(fused_file("d2l-ffn")), specs, [{}], runtimes=["torch"], budget=0.01)
    result = measure(Artifact(fused_file("d2l-ffn")), specs, [{}], budget=0.01)
    assert "torch" in result.unavailable
    assert [t.runtime for t in result.measurements[0].timings] == ["ort-cpu"]
