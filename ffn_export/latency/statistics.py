"""Medians, percentiles and the confidence interval of a paired ratio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import scipy.stats

from ffn_export.latency.competitors import Competitor
from ffn_export.latency.result import Ratio, Timing

Times = npt.NDArray[np.float64]


def summarise(competitor: Competitor, seconds: Sequence[float], *, accelerated: bool = False) -> Timing:
    """Return median and percentiles of a competitor's runs."""
    p50, p90, p99 = map(float, np.percentile(seconds, [50, 90, 99]))
    return Timing(competitor.runtime, p50, p90, p99, len(seconds), accelerated, competitor.copies)


def ratios(seconds: Mapping[Competitor, Sequence[float]], baseline: str) -> tuple[Ratio, ...]:
    """Return the ratio of every other competitor over the baseline; none where the baseline was not timed.

    One with copies is held against the baseline with copies where that has any, else against the baseline as it is:
    then its inputs and outputs are on the host, and both are timed from the host to the host.
    """
    plain = Competitor(baseline)
    if plain not in seconds:
        return ()
    with_copies = Competitor(baseline, copies=True)
    of_copies = with_copies if with_copies in seconds else plain
    found = []
    for competitor, times in seconds.items():
        if competitor.runtime != baseline:
            reference = of_copies if competitor.copies else plain
            found.append(paired_ratio(competitor, times, reference, seconds[reference]))
    return tuple(found)


def paired_ratio(
    competitor: Competitor, seconds: Sequence[float], baseline: Competitor, reference: Sequence[float]
) -> Ratio:
    """Return the ratio of medians with its 95 % confidence interval.

    Run k of both was made in the same round, so the pairs are resampled together: what slowed the
    machine for a moment slowed both. Percentile bootstrap, seeded (Efron and Tibshirani 1993, ch. 13).
    """
    times, references = np.asarray(seconds), np.asarray(reference)
    value = float(np.median(times) / np.median(references))
    low = high = value
    if len(times) > 1:
        low, high = scipy.stats.bootstrap(
            (times, references),
            _ratio_of_medians,
            paired=True,
            vectorized=True,
            n_resamples=1000,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
    return Ratio(competitor.runtime, baseline.label, value, float(low), float(high), competitor.copies)


def _ratio_of_medians(times: Times, references: Times, axis: int = -1) -> Times:
    ratio: Times = np.median(times, axis=axis) / np.median(references, axis=axis)
    return ratio
