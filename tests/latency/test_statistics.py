"""Percentiles, and an interval that holds what it should: on numbers that were made up."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from ffn_export.latency.competitors import Competitor
from ffn_export.latency.interleaving import Runs
from ffn_export.latency.statistics import paired_ratio, summarise

OURS, TORCH = Competitor("ours"), Competitor("torch")
Times = npt.NDArray[np.float64]


def runs(times: Times, sessions: int = 1) -> Runs:
    """Times ``[rounds]`` or ``[rounds, block]`` as they are measured."""
    return Runs(tuple(map(tuple, times.reshape(len(times), -1).tolist())), sessions)


def test_percentiles_are_those_of_the_runs() -> None:
    timing = summarise(Competitor("ort-cpu"), runs(np.arange(1, 103).reshape(34, 3) / 1000))
    assert timing.median == pytest.approx(0.0515)
    assert timing.p90 == pytest.approx(0.0919)
    assert timing.p99 == pytest.approx(0.10099)
    assert timing.rounds == 102


def test_ratio_of_a_real_difference_excludes_one_and_noise_is_a_tie() -> None:
    noise = np.random.default_rng(0).normal(1.0, 0.05, 200)
    faster = paired_ratio(OURS, runs(0.5 * noise), TORCH, runs(noise))
    assert faster.value == pytest.approx(0.5)
    assert faster.high < 0.55
    assert not faster.is_tie
    other = np.random.default_rng(1).normal(1.0, 0.05, 200)
    assert paired_ratio(OURS, runs(other), TORCH, runs(noise)).is_tie


def test_what_slows_both_at_once_does_not_widen_the_interval() -> None:
    load = np.repeat([1.0, 3.0], 50)
    ratio = paired_ratio(OURS, runs(0.7 * load), TORCH, runs(load))
    assert ratio.low == pytest.approx(0.7)
    assert ratio.high == pytest.approx(0.7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rounds", "sessions", "of_sessions"),
    [
        pytest.param(24, 4, 0.1, id="sessions-differ"),
        pytest.param(24, 4, 0.0, id="sessions-do-not-differ"),
        pytest.param(4, 4, 0.1, id="the-fewest-rounds"),
        pytest.param(6, 3, 0.1, id="three-sessions"),
        pytest.param(4, 1, 0.0, id="one-session"),
    ],
)
def test_two_files_that_are_the_same_are_told_apart_one_time_in_twenty(
    rounds: int, sessions: int, of_sessions: float
) -> None:
    """Whether or not their sessions differ beyond what the runs of a round share: percentiles alone do it 3 in 20."""
    rng = np.random.default_rng(0)

    def timed() -> Runs:
        of_session = np.tile(rng.normal(1.0, of_sessions, sessions), rounds // sessions)[:, None]
        of_round, of_run = rng.normal(0, 0.01, (rounds, 1)), rng.normal(0, 0.005, (rounds, 3))
        return runs(of_session + of_round + of_run, sessions)

    told_apart = sum(not paired_ratio(OURS, timed(), TORCH, timed()).is_tie for _ in range(200))
    assert told_apart <= 18  # 10 are meant, and 18 come by chance in 1 of 100 such tests


def test_an_interval_of_many_units_is_that_of_its_percentiles() -> None:
    """200 rounds of a spread of 5 % each: the ratio of two medians is known to 1.25 sqrt(2) 0.05 / sqrt(200)."""
    rng = np.random.default_rng(0)
    ratio = paired_ratio(OURS, runs(rng.normal(1.0, 0.05, 200)), TORCH, runs(rng.normal(1.0, 0.05, 200)))
    assert ratio.high / ratio.low == pytest.approx(1 + 2 * 1.96 * 1.25 * 0.05 * (2 / 200) ** 0.5, rel=0.01)


def test_one_round_has_no_interval() -> None:
    ratio = paired_ratio(OURS, runs(np.array([1.0])), TORCH, runs(np.array([2.0])))
    assert (ratio.value, ratio.low, ratio.high) == (0.5, 0.5, 0.5)
