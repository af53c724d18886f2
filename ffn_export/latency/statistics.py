"""Medians, percentiles and the confidence interval of a paired ratio."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ffn_export.latency.competitors import Competitor
from ffn_export.latency.interleaving import Runs
from ffn_export.latency.result import Ratio, Timing

Times = npt.NDArray[np.float64]
_RESAMPLES = 1000
_LEVELS = (2.5, 97.5)  # percent


def summarise(competitor: Competitor, runs: Runs, *, accelerated: bool = False) -> Timing:
    """Return median and percentiles of a competitor's runs."""
    p50, p90, p99 = map(float, np.percentile(runs.seconds, [50, 90, 99]))
    return Timing(competitor.runtime, p50, p90, p99, len(runs.seconds), accelerated, competitor.copies, runs.sessions)


def ratios(runs: Mapping[Competitor, Runs], baseline: str) -> tuple[Ratio, ...]:
    """Return the ratio of every other competitor over the baseline; none where the baseline was not timed.

    One with copies is held against the baseline with copies where that has any, else against the baseline as it is:
    then its inputs and outputs are on the host, and both are timed from the host to the host.
    """
    plain = Competitor(baseline)
    if plain not in runs:
        return ()
    with_copies = Competitor(baseline, copies=True)
    of_copies = with_copies if with_copies in runs else plain
    found = []
    for competitor, its_runs in runs.items():
        if competitor.runtime != baseline:
            reference = of_copies if competitor.copies else plain
            found.append(paired_ratio(competitor, its_runs, reference, runs[reference]))
    return tuple(found)


def paired_ratio(competitor: Competitor, runs: Runs, baseline: Competitor, reference: Runs) -> Ratio:
    """Return the ratio of medians with its 95 % confidence interval: percentile bootstrap, seeded.

    Runs are not independent: those of a session share where its pages lie, those of a round what else the machine did.
    So sessions are resampled, rounds within a session, and runs of a round stay together; both competitors' are drawn
    as one, since round k of both was made at the same time (Davison and Hinkley 1997, section 3.8). SciPy's bootstrap
    draws single runs, by which every fifth pair of sessions of one file was told apart.
    """
    times, references = np.asarray(runs.rounds), np.asarray(reference.rounds)
    value = float(np.median(times) / np.median(references))
    drawn = _resampled(len(times), math.lcm(runs.sessions, reference.sessions))
    medians = [np.median(of[drawn].reshape(_RESAMPLES, -1), axis=1) for of in (times, references)]
    low, high = np.percentile(medians[0] / medians[1], _LEVELS)
    return Ratio(competitor.runtime, baseline.label, value, float(low), float(high), competitor.copies)


def _resampled(rounds: int, sessions: int) -> npt.NDArray[np.intp]:
    """Return numbers of rounds, ``[resamples, rounds drawn]``: sessions with replacement, then rounds of each."""
    sessions = min(sessions, rounds)
    of_each = rounds // sessions
    rng = np.random.default_rng(0)
    session = rng.integers(sessions, size=(_RESAMPLES, sessions, 1))
    turn = rng.integers(of_each, size=(_RESAMPLES, sessions, of_each))
    return (session + sessions * turn).reshape(_RESAMPLES, -1)
