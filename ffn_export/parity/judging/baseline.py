"""Compare a verification with an earlier one: new failures, grown errors, and subjects no longer judged.

Errors of one build are deterministic: inputs are drawn from a seed, and a kernel adds in a fixed order. They change
with the processor, the number of threads and the version of the runtime, because these select kernels that add in
another order. The largest error of an output is then another draw from a heavy-tailed distribution. An error has
therefore grown only if all of these hold:

1. The largest error and the relative L2 error are both more than :data:`GROWTH` times the earlier ones.
2. The largest error exceeds :data:`SHARE` of its bound.

On ill-conditioned rows the earlier error may have been small by luck, so it counts as at least the conditioning (one
rounding of the inputs). An error that crosses its bound is a regression, however little it grew. Errors on inputs of
different seeds are not compared.

Both results are judged under the tolerances of the new one, so measurements are compared, not bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ffn_export.core.regression import Comparison, Regression
from ffn_export.core.words import counted
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.measures import OutputMetrics, WeightMetrics
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes import environment

GROWTH = 2.0
SHARE = 0.5  # half of the floor, if PyTorch's own error is small


def compare(old: ParityResult, new: ParityResult) -> Comparison:
    """Compare a verification with an earlier one of the same model.

    A runtime that was asked and is now unavailable is a regression, and so is a case, an initializer or a property
    that is no longer judged. A runtime that was not asked this time is only a note, and so is anything new.
    """
    before = old.rejudged(new.tolerances)
    judged = [case for case in before.cases if case.skipped is None]
    not_asked = {case.runtime for case in judged} - {case.runtime for case in new.cases} - set(new.unavailable)
    held_against = [case for case in judged if case.runtime not in not_asked]
    regressions = [
        *_checks(before, new),
        *_weights(before, new),
        *_missing(held_against, new),
        *_cases(held_against, new),
        *_properties(before, new, not_asked),
    ]
    notes = [
        *_other_subject(old, new),
        *(f"{name} judged the baseline and was not asked now" for name in sorted(not_asked)),
        *_new_cases(before, new),
        *environment.changes(old.environment, new.environment),
    ]
    return Comparison(len(held_against) + len(before.weights), tuple(regressions), tuple(notes))


def _checks(old: ParityResult, new: ParityResult) -> Iterator[Regression]:
    before = {(check.name, line) for check in old.checks for line in check.faults}
    for check in new.checks:
        yield from (
            Regression("failure", check.name, line) for line in check.faults if (check.name, line) not in before
        )


def _weights(old: ParityResult, new: ParityResult) -> Iterator[Regression]:
    """Compare by parameter, since another export may name its initializers differently."""
    before, now = _by_parameter(old), _by_parameter(new)
    for parameter, weight in before.items():
        there = now.get(parameter)
        if there is None:
            reason = f"was compared with initializer {weight.initializer!r}, and nothing is traced to it now"
            yield Regression("missing", f"parameter {parameter!r}", reason)
            continue
        failure = verdict.weight_failure(there, new.tolerances)
        if failure is not None and verdict.weight_failure(weight, new.tolerances) is None:
            yield Regression("failure", f"parameter {parameter!r}", failure)


def _by_parameter(result: ParityResult) -> dict[str, WeightMetrics]:
    """Return parameter -> the initializer that holds it. A packed initializer is listed under each parameter."""
    found: dict[str, WeightMetrics] = {}
    for weight in result.weights:
        for parameter in weight.parameter.split("+"):
            failed = verdict.weight_failure(weight, result.tolerances) is not None
            if failed or parameter not in found:
                found[parameter] = weight
    return found


def _missing(judged: Sequence[CaseResult], new: ParityResult) -> Iterator[Regression]:
    """Yield one regression for each runtime that no longer judges some cases."""
    there = {(case.runtime, case.case) for case in new.cases}
    gone = [case for case in judged if (case.runtime, case.case) not in there]
    for name, count in Counter(case.runtime for case in gone).items():
        if name in new.unavailable:
            yield Regression("missing", name, f"judged the baseline and is unavailable now: {new.unavailable[name]}")
            continue
        first = next(case.case for case in gone if case.runtime == name)
        reason = f"{counted(count, 'case')} of the baseline not judged now, the first is {first}"
        yield Regression("missing", name, reason)


def _cases(judged: Sequence[CaseResult], new: ParityResult) -> Iterator[Regression]:
    now = {(case.runtime, case.case): case for case in new.cases}
    for case in judged:
        there = now.get((case.runtime, case.case))
        if there is None:
            continue
        where = f"{case.runtime}, {case.case}"
        if there.skipped is not None:
            yield Regression("missing", where, f"was judged in the baseline and is skipped now: {there.skipped}")
        else:
            yield from _case(where, case, there, new.tolerances)


def _case(where: str, old: CaseResult, new: CaseResult, tolerances: Tolerances) -> Iterator[Regression]:
    failure = new.failure(tolerances)
    if failure is not None and old.failure(tolerances) is None:
        yield Regression("failure", where, f"passed and fails now: {failure}")
        return
    if old.seed != new.seed:
        return  # errors depend on the seed: up to 3.5 times in norm, for one preset on five seeds
    before = {output.output: output for output in old.outputs}
    for output in new.outputs:
        grown = _growth(before[output.output], output, tolerances) if output.output in before else None
        if grown is not None:
            yield Regression("error", where, f"{output.output}: {grown}")


def _growth(old: OutputMetrics, new: OutputMetrics, tolerances: Tolerances) -> str | None:
    """Return how an output's error grew, or None if it stayed within the margin."""
    share = verdict.factor(new, tolerances)
    if tolerances.relative_l2 is None and tolerances.closeness_of(new.output) is None:
        then, now, unit, least = old.actual.ulps, new.actual.ulps, "units in the last place", new.conditioning_ulps
    else:
        then, now, unit, least = verdict.factor(old, tolerances), share, "times what is declared", 0.0
    overall = new.actual.relative_l2 <= GROWTH * old.actual.relative_l2
    # Written so that NaN counts as grown.
    if share <= SHARE or now <= GROWTH * max(then, least) or overall:
        return None
    return f"error {now:.3g} {unit}, was {then:.3g}; {share:.0%} of what is allowed"


def _properties(old: ParityResult, new: ParityResult, not_asked: set[str]) -> Iterator[Regression]:
    now = {(each.runtime, each.property, each.output): each for each in new.properties}
    for each in old.properties:
        if each.runtime in not_asked or each.runtime in new.unavailable:
            continue
        there = now.get((each.runtime, each.property, each.output))
        if there is None:
            yield Regression("missing", f"{each.runtime}, {each.property}", "was tested in the baseline and is not now")
            continue
        failure = verdict.property_failure(there, new.tolerances)
        if failure is not None and verdict.property_failure(each, new.tolerances) is None:
            yield Regression("failure", each.runtime, f"held and does not now: {failure}")


def _other_subject(old: ParityResult, new: ParityResult) -> Iterator[str]:
    if old.against != new.against:
        yield f"the baseline was verified against {old.against}, this against {new.against}"
    seeds = [{case.case: case.seed for case in result.cases} for result in (old, new)]
    if any(seed != seeds[1].get(case, seed) for case, seed in seeds[0].items()):
        yield "the inputs of the baseline were drawn from another seed: verdicts are compared, errors are not"
    if old.tolerances != new.tolerances:
        yield "the baseline was judged under other tolerances; both are judged under those of now"


def _new_cases(old: ParityResult, new: ParityResult) -> Iterator[str]:
    known = {(case.runtime, case.case) for case in old.cases}
    added = Counter(case.runtime for case in new.cases if (case.runtime, case.case) not in known)
    for runtime, count in added.items():
        yield f"{runtime}: {counted(count, 'case')} not in the baseline"
