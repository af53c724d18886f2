"""Compare a timing with an earlier one, by the confidence intervals of the ratios over PyTorch.

Ratios are compared, since PyTorch and the runtime were timed in turn. Seconds are not: the same machine is faster at
night. A ratio also depends on the processor and the number of threads, because runtimes differ in vector width and in
scaling. If either differs, that is noted and no ratio is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ffn_export.core.regression import Comparison, Regression
from ffn_export.latency.result import LatencyResult, Measurement, Ratio
from ffn_export.runtimes import environment


def compare(old: LatencyResult, new: LatencyResult) -> Comparison:
    """Compare a timing with an earlier one of the same model.

    A ratio of the baseline has regressed if

    1. its 95 % confidence interval now lies wholly above the earlier one, or
    2. it is inconclusive now, or
    3. its runtime is unavailable now, at these sizes or at all.

    A runtime that was not asked for is noted, and so is a ratio that was not timed now. A ratio that was inconclusive
    in the baseline is not judged.

    Ratios with copies are compared with each other. A slower one is noted and does not fail, since copies measure the
    way to the device. A ratio with copies that only one timing has is ignored: an earlier version timed no copies.
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
    """Compare, and time once more if a ratio is slower or inconclusive; report it only if both timings agree.

    A confidence interval covers variation within one run. It misses disturbances that last as long as a run, such as
    a neighbour on the machine. ``again`` times the same model once more.
    """
    first = compare(old, new)
    unsure = {f"{ratio.runtime} at {m.label}" for m, ratio in _ratios(new, copies=False) if ratio.doubt}
    if not any(regression.kind == "latency" or regression.where in unsure for regression in first.regressions):
        return first
    confirmed = {r.where for r in compare(old, again()).regressions}
    kept = tuple(r for r in first.regressions if r.where in confirmed or not (r.kind == "latency" or r.where in unsure))
    return replace(first, regressions=kept)


def _slower_with_copies(old: LatencyResult, new: LatencyResult) -> Iterator[str]:
    """Yield a note for each ratio with copies that is slower; no quality gate judges these."""
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
    """Return why the ratios of two timings cannot be compared, or None."""
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
