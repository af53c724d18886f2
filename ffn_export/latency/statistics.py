"""Medians, percentiles and the confidence interval of a paired ratio."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.stats

from ffn_export.latency.result import Ratio, Timing

Times = npt.NDArray[np.float64]


def summarise(runtime: str, seconds: Sequence[float], *, accelerated: bool = False) -> Timing:
    """Return median and percentiles of a competitor's runs."""
    p50, p90, p99 = np.percentile(seconds, [50, 90, 99])
    return Timing(runtime, float(p50), float(p90), float(p99), len(seconds), accelerated)


def paired_ratio(runtime: str, seconds: Sequence[float], baseline: str, reference: Sequence[float]) -> Ratio:
    """Return the ratio of medians with its 95 % confidence interval.

    Run k of both was made in the same round, so the pairs are resampled together: what slowed the
    machine for a moment slowed both. Percentile bootstrap, seeded (Efron and Tibshirani 1993, ch. 13).
    """
    times, references = np.asarray(seconds), np.asarray(reference)
    value = float(np.median(times) / np.median(references))
    if len(times) < 2:
        return Ratio(runtime, baseline, value, value, value)
    interval = scipy.stats.bootstrap(
        (times, references),
        _ratio_of_medians,
        paired=True,
        vectorized=True,
        n_resamples=1000,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Ratio(runtime, baseline, value, float(interval.low), float(interval.high))


def _ratio_of_medians(times: Times, references: Times, axis: int = -1) -> Times:
    ratio: Times = np.median(times, axis=axis) / np.median(references, axis=axis)
    return ratio
