"""A ratio that says nothing is called inconclusive, and no gate and no choice takes it for a measurement."""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ffn_export.bundle.describe import summarise_latency
from ffn_export.latency.baseline import compare
from ffn_export.latency.gate import latency_failures
from ffn_export.latency.host import Host, Lost
from ffn_export.latency.result import LatencyResult, Measurement, Ratio, RatioVerdict, Timing
from ffn_export.reports.latency import doubt_words, rows
from ffn_export.runtimes import environment
from ffn_export.tuning.result import Pair, lead

BUSY = "its threads waited 60% of the time"


def ratio(low: float, value: float, high: float, lost: float = 0.0) -> Ratio:
    return Ratio("ort-cpu", "torch", value, low, high, lost=lost, lost_to=BUSY)


def result(found: Ratio) -> LatencyResult:
    timings = tuple(Timing(name, 1e-3, 1e-3, 1e-3, 12) for name in ("torch", "ort-cpu"))
    return LatencyResult(
        "m", "torch", (Measurement({"seq": 8}, timings, (found,)),), environment=environment.current(1)
    )


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (ratio(0.7, 0.8, 0.9), "faster"),
        (ratio(1.1, 1.3, 1.5), "slower"),
        (ratio(0.8, 1.0, 1.3), "tie"),
        (ratio(0.002, 0.1, 1.836), "inconclusive"),
        (ratio(0.01, 0.0159, 0.08), "inconclusive"),
        (ratio(float("nan"), 1.0, 1.0), "inconclusive"),
        (ratio(0.0158, 0.0159, 0.016, lost=0.6), "inconclusive"),
        (ratio(0.7, 0.8, 0.9, lost=0.1), "faster"),  # a shared machine with a little noise
    ],
)
def test_spread_and_lost_time_make_it_inconclusive(found: Ratio, verdict: RatioVerdict) -> None:
    assert found.verdict == verdict
    assert bool(found.doubt) == (verdict == "inconclusive")
    assert (BUSY in found.doubt) == (found.lost > 0.25)


def test_where_the_interval_is_wide_a_smaller_loss_is_named_as_its_cause() -> None:
    assert ratio(0.4, 1, 2, lost=0.1).doubt == f"its 95 % interval spans a factor of 5; {BUSY}"


def test_every_report_says_so() -> None:
    timed = result(ratio(0.002, 0.1, 1.836))
    (row,) = (row for row in rows(timed, verbose=False) if "ort-cpu" in row)
    *_, shown, _, _, said = row
    assert (shown, said) == ("", "inconclusive")
    assert doubt_words(timed).startswith(
        "inconclusive, measure again when nothing else runs: ort-cpu at seq=8: its 95 %"
    )
    (measurement,) = summarise_latency(timed)["measurements"]
    assert measurement["ratio"]["ort-cpu"].keys() == {"verdict", "reason"}
    assert timed.worst_ratio() is None
    data = timed.to_dict()
    assert data["measurements"][0]["ratios"][0]["verdict"] == "inconclusive"
    assert LatencyResult.from_dict(data) == timed


def test_gates_take_it_for_not_measured() -> None:
    slow, fast = ratio(1.5, 3.0, 9.0), ratio(0.1, 0.3, 0.9)
    for found in (slow, fast):
        (failure,) = latency_failures(result(found), max_ratio=1.2)
        assert failure.startswith("ort-cpu at seq=8 was not measured, its ratio is inconclusive")
    quiet = result(ratio(0.7, 0.8, 0.9))
    (regression,) = compare(quiet, result(slow)).regressions
    assert regression.kind == "missing"
    assert "is inconclusive now" in regression.reason
    assert compare(result(slow), quiet).regressions == ()


def test_tuning_leaves_the_default() -> None:
    sure = Pair("seq=128", 128, ratio(0.7, 0.8, 0.9))
    assert lead([sure])[0]
    leads, words = lead([sure, replace(sure, label="seq=512", ratio=ratio(0.2, 0.8, 0.99))])
    assert not leads
    assert "inconclusive at seq=512: its 95 %" in words


def spin(stop: float) -> None:
    while time.monotonic() < stop:
        pass


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/schedstat").is_file(), reason="only Linux counts how long threads wait")
def test_busy_neighbours_are_seen() -> None:
    """Four processes beside this one, all on one processor, leave it a fifth of the time."""
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        context, stop = multiprocessing.get_context("fork"), time.monotonic() + 1.0
        neighbours = [context.Process(target=spin, args=(stop,)) for _ in range(4)]
        for each in neighbours:
            each.start()
        host = Host()
        since = host.read()
        spin(stop)
        lost = host.lost(since)
        for each in neighbours:
            each.join()
    finally:
        os.sched_setaffinity(0, processors)
    assert lost.share > 0.5
    assert lost.cause.startswith("its threads waited")


def test_a_container_that_is_paused_and_one_that_nobody_counts(tmp_path: Path) -> None:
    container = tmp_path / "cpu.stat"
    container.write_text("usage_usec 5\nthrottled_usec 1000000\n")
    host = Host(stat=tmp_path / "none", tasks=tmp_path, container=container)
    since = replace(host.read(), at=time.perf_counter() - 10)
    container.write_text("usage_usec 5\nthrottled_usec 5000000\n")
    lost = host.lost(since)
    assert lost.share == pytest.approx(0.4, rel=0.01)
    assert lost.cause == "its container was paused 40% of the time"
    nothing = Host(stat=tmp_path / "none", tasks=tmp_path, container=tmp_path / "none")
    assert nothing.lost(nothing.read()) == Lost()
