"""Medians, percentiles and the confidence interval of a paired ratio."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ffn_export.latency.competitors import Competitor
from ffn_export.latency.host import Lost
from ffn_export.latency.interleaving import Runs
from ffn_export.latency.result import Ratio, Timing

Times = npt.NDArray[np.float64]
_RESAMPLES = 1000
_LEVELS = (2.5, 97.5)  # percent
_LEAST_DEGREES = 2  # of freedom. With one, Student's interval is six times that of the normal: too wide to be of use


def summarise(competitor: Competitor, runs: Runs, *, accelerated: bool = False) -> Timing:
    """Return the median and percentiles of a competitor's runs."""
    p50, p90, p99 = map(float, np.percentile(runs.seconds, [50, 90, 99]))
    return Timing(
        competitor.runtime,
        p50,
        p90,
        p99,
        len(runs.seconds),
        accelerated,
        competitor.copies,
        runs.sessions,
        competitor.default,
    )


def ratios(runs: Mapping[Competitor, Runs], baseline: str, lost: Lost | None = None) -> tuple[Ratio, ...]:
    """Return the ratio of the model on every runtime over the baseline; none if the baseline was not timed.

    A competitor with copies is compared with the baseline with copies. If the baseline has none, its inputs and outputs
    are on the host, and both are timed from host to host.
    """
    plain = Competitor(baseline)
    if plain not in runs:
        return ()
    with_copies = Competitor(baseline, copies=True)
    of_copies = with_copies if with_copies in runs else plain
    found = []
    for competitor, its_runs in runs.items():
        if competitor.runtime != baseline and not competitor.default:
            reference = of_copies if competitor.copies else plain
            found.append(paired_ratio(competitor, its_runs, reference, runs[reference], lost))
    return tuple(found)


def ratios_over_default(runs: Mapping[Competitor, Runs], lost: Lost | None = None) -> tuple[Ratio, ...]:
    """Return the ratio of the model on every runtime over the runtime's default session on the exported model."""
    pairs = [(who, replace(who, default=True)) for who in runs if not who.default]
    return tuple(paired_ratio(a, runs[a], b, runs[b], lost) for a, b in pairs if b in runs)


def paired_ratio(
    competitor: Competitor, runs: Runs, baseline: Competitor, reference: Runs, lost: Lost | None = None
) -> Ratio:
    """Return the ratio of medians with its 95 % confidence interval, by a seeded percentile bootstrap.

    Runs are not independent: runs of a session share page placement, runs of a round share the load of the machine. So
    the bootstrap resamples sessions, then rounds within a session, and keeps the runs of a round together. Rounds of
    both competitors are drawn in pairs, since round k of both ran at the same time (Davison and Hinkley 1997, section
    3.8). SciPy's bootstrap draws single runs; with it, every fifth pair of sessions of one file was found to differ.
    Percentiles of so few units are too narrow and are widened by :func:`_widening`.
    """
    times, references = np.asarray(runs.rounds), np.asarray(reference.rounds)
    value = float(np.median(times) / np.median(references))
    sessions = min(math.lcm(runs.sessions, reference.sessions), len(times))
    drawn = _resampled(len(times), sessions)
    medians = [np.median(of[drawn].reshape(_RESAMPLES, -1), axis=1) for of in (times, references)]
    apart = np.log(np.percentile(medians[0] / medians[1], _LEVELS) / value)
    of_rounds = np.log(np.median(times, axis=1) / np.median(references, axis=1))
    low, high = value * np.exp(apart * _widening(of_rounds, sessions))
    lost = lost or Lost()
    interval = float(low), float(high)
    return Ratio(competitor.runtime, baseline.label, value, *interval, competitor.copies, lost.share, lost.cause)


def _resampled(rounds: int, sessions: int) -> npt.NDArray[np.intp]:
    """Return numbers of rounds, ``[resamples, rounds drawn]``: sessions with replacement, then rounds of each."""
    of_each = rounds // sessions
    rng = np.random.default_rng(0)
    session = rng.integers(sessions, size=(_RESAMPLES, sessions, 1))
    turn = rng.integers(of_each, size=(_RESAMPLES, sessions, of_each))
    return (session + sessions * turn).reshape(_RESAMPLES, -1)


def _widening(log_ratios: Times, sessions: int) -> float:
    """Return the factor by which an interval of so few sessions is wider than its percentiles.

    Percentiles treat the spread as known, but it is estimated from four sessions: without this factor, equal
    competitors were found to differ 10 to 14 times in a hundred. The factor has two parts:

    1. Student's t replaces the normal distribution, with the degrees of freedom of Satterthwaite (1946): those of the
       sessions if sessions differ, more if the rounds of a session do.
    2. Resampling n units has (n - 1) / n of their variance. This applies to the sessions and to the rounds of each; the
       spread of the rounds is in both (Davison and Hinkley 1997, sections 2.3 and 3.8).

    Args:
        log_ratios: Logarithm of the ratio of each round, ``[rounds]``; round ``k`` is of session ``k % sessions``.
        sessions: Number of sessions. If it is 1, the rounds are the units.
    """
    units = sessions if sessions > 1 else len(log_ratios)
    if units < 2:
        return 1.0
    of_each = len(log_ratios) // units
    table = log_ratios[: of_each * units].reshape(of_each, units)
    between = float(table.mean(axis=0).var(ddof=1)) / units
    within = float(table.var(axis=0, ddof=1).mean()) / table.size if of_each > 1 else 0.0
    if between == 0:
        return 1.0
    variance, drawn = max(between, within), between * (units - 1) / units + within * (of_each - 1) / of_each
    degrees, most = (units - 1) * (variance / between) ** 2, max(len(log_ratios) - 1, _LEAST_DEGREES)
    from scipy import special  # takes a while to import, and only here is it used

    student = special.stdtrit(min(max(degrees, _LEAST_DEGREES), most), _LEVELS[1] / 100)
    return float(student / special.ndtri(_LEVELS[1] / 100)) * math.sqrt(variance / drawn)
