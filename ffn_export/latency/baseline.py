"""A timing held against an earlier one: ratios over PyTorch whose confidence intervals have moved apart.

Seconds are not compared, for the same machine is faster at night; ratios are, since PyTorch and the runtime were
timed in turn. A ratio belongs to its processor and its number of threads, too: one runtime uses wider vectors
than another, one scales better. So ratios of another place are noted and not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ffn_export.core.regression import Comparison, Regression
from ffn_export.latency.result import LatencyResult, Measurement, Ratio
from ffn_export.runtimes import environment


def compare(old: LatencyResult, new: LatencyResult) -> Comparison:
    """Hold a timing against an earlier one of the same model.

    A ratio has regressed where its 95 % confidence interval lies wholly above the earlier one. One that was timed
    then and is unavailable, left out or inconclusive now is a regression too, unless its runtime was not asked. One
    that was inconclusive then is not judged.

    Ratios with copies are held against those with copies alone, and what is worse in them is noted: nothing fails on
    the way to a device. One that only the old or the new timing has, as where an earlier version timed no copies, is
    no difference.

    Args:
        old: The baseline.
        new: What is held against it.
    """
    changes = environment.changes(old.environment, new.environment)
    elsewhere = _elsewhere(old, new)
    if elsewhere is not None:
        return Comparison(0, (), (elsewhere, *changes))
    now = {(ratio.runtime, m.label): ratio for m, ratio in _ratios(new, copies=False)}
    timed = {runtime for runtime, _ in now}
    regressions: list[Regression] = []
    compared, notes = 0, [*changes, *_slower_with_copies(old, new)]
    for measurement, ratio in _ratios(old, copies=False):
        where = f"{ratio.runtime} at {measurement.label}"
        there = now.get((ratio.runtime, measurement.label))
        if ratio.verdict == "inconclusive":
            notes.append(f"{where} was inconclusive in the baseline: {ratio.doubt}")
        elif there is not None and there.verdict == "inconclusive":
            regressions.append(
                Regression("missing", where, f"was timed in the baseline and is inconclusive now: {there.doubt}")
            )
        elif there is not None:
            compared += 1
            regressions += _slower(where, ratio, there)
        elif (reason := new.unavailable.get(ratio.runtime, new.unavailable.get(where))) is not None:
            regressions.append(Regression("missing", where, f"was timed in the baseline and is unavailable: {reason}"))
        elif ratio.runtime in timed:
            notes.append(f"{where} was timed in the baseline and not now")
        else:
            notes.append(f"{ratio.runtime} was timed in the baseline and was not asked now")
    return Comparison(compared, tuple(regressions), tuple(dict.fromkeys(notes)))


def compare_twice(old: LatencyResult, new: LatencyResult, again: Callable[[], LatencyResult]) -> Comparison:
    """Compare, and time again what seems slower or is inconclusive: it has regressed where both timings say so.

    An interval holds what varied within one run. What lasts as long as a run, such as a neighbour on the machine,
    is not in it.

    Args:
        old: The baseline.
        new: What is held against it.
        again: Times the same thing once more; called only where something seems slower.
    """
    first = compare(old, new)
    unsure = {f"{ratio.runtime} at {m.label}" for m, ratio in _ratios(new, copies=False) if ratio.doubt}
    if not any(regression.kind == "latency" or regression.where in unsure for regression in first.regressions):
        return first
    confirmed = {r.where for r in compare(old, again()).regressions}
    kept = tuple(r for r in first.regressions if r.where in confirmed or not (r.kind == "latency" or r.where in unsure))
    return replace(first, regressions=kept)


def _slower_with_copies(old: LatencyResult, new: LatencyResult) -> Iterator[str]:
    """Return a line for each ratio with copies that is worse; no gate fails on them."""
    now = {(ratio.label, m.label): ratio for m, ratio in _ratios(new, copies=True)}
    for measurement, ratio in _ratios(old, copies=True):
        there = now.get((ratio.label, measurement.label))
        where = f"{ratio.label} at {measurement.label}"
        for slower in _slower(where, ratio, there) if there is not None else ():
            yield f"{where} {slower.reason}, which is not judged"


def _slower(where: str, old: Ratio, new: Ratio) -> Iterator[Regression]:
    if new.low > old.high and "inconclusive" not in (old.verdict, new.verdict):
        reason = (
            f"takes {new.value:.3g} x {new.baseline} ({new.low:.3g} to {new.high:.3g}), "
            f"was {old.value:.3g} ({old.low:.3g} to {old.high:.3g})"
        )
        yield Regression("latency", where, reason)


def _elsewhere(old: LatencyResult, new: LatencyResult) -> str | None:
    """Return why ratios of both do not compare, or None."""
    if not new.baseline or not old.baseline:
        return (
            f"latency is not judged: {'this' if old.baseline else 'the baseline'} was timed without PyTorch beside it"
        )
    if old.environment is None or new.environment is None:
        return "latency is not judged: it is not recorded where the baseline was timed"
    differing = [name for name in environment.PLACE if getattr(old.environment, name) != getattr(new.environment, name)]
    if differing:
        return f"latency is not judged: the baseline was timed with another {' and '.join(differing)}"
    return None


def _ratios(result: LatencyResult, *, copies: bool) -> Iterator[tuple[Measurement, Ratio]]:
    for measurement in result.measurements:
        for ratio in measurement.ratios:
            if ratio.copies == copies:
                yield measurement, ratio
