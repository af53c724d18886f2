"""Fuse a model, run it and the fused graph, and undo rewrites whose results differ.

1. Run the model on drawn inputs, with every rewritten value as an additional output.
2. Run the fused graph on the same inputs, cut at these values, so that each shows its own error
   (``core.tapped_graphs``). Undo the rewrites of values that differ.
3. Run the fused graph whole. Some differences belong to no single value, such as a graph that the runtime refuses, or a
   site inside the body of an ``If``. Bisect them: rewrite only the first k values; the smallest k that differs names
   the wrong one.
4. Fuse again without these values, and repeat until both graphs agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

import onnx_ir as ir

from ffn_export.core.garbage import collected_seldom
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.forms.choice import in_use
from ffn_export.fusion.functions.finish import finish
from ffn_export.fusion.pipeline import Fusion, as_it_came, rewrite, unchanged
from ffn_export.fusion.report import NOT_ASKED_FOR, Check, CheckStatus, FusionReport
from ffn_export.fusion.targets import get_target
from ffn_export.fusion_check.limits import Deadline, Limits, OutOfTimeError
from ffn_export.fusion_check.original_run import CannotCompareError, Finding, Trial
from ffn_export.fusion_check.rollback import report_of
from ffn_export.fusion_check.running import runtimes
from ffn_export.runtimes.threads import chosen_threads

_MOST_NAMED = 3


@collected_seldom()
def fuse_checked(
    model: ir.Model,
    target: str = "ort-cpu",
    check: bool = True,
    *,
    portable_functions: bool = False,
    forms: Collection[str] | None = None,
    limits: Limits | None = None,
    threads: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[ir.Model, FusionReport]:
    """Fuse the feed-forward and norm nodes of a model, and undo rewrites that change its results.

    Arguments and result are those of :func:`ffn_export.fuse`, with a model in memory; ``clock`` returns seconds.

    Raises:
        UsageError: If no target has this name, or the target does not offer these forms.
    """
    used = in_use(forms, get_target(target))
    fused, report = _checked(model, target, used, check, limits or Limits(), chosen_threads(threads), clock)
    return finish(fused, report, portable_functions=portable_functions)


def _checked(
    model: ir.Model, target: str, forms: Forms, check: bool, limits: Limits, threads: int, clock: Callable[[], float]
) -> tuple[ir.Model, FusionReport]:
    fusion = rewrite(model, target, forms=forms)
    outlines = get_target(target).outlines
    if fusion.report.problem is not None:
        return fusion.model, replace(fusion.report, check=Check(reason=fusion.report.problem))
    if not check:
        return finish(fusion.model, replace(fusion.report, check=NOT_ASKED_FOR), outlines=outlines)
    deadline = Deadline(limits, clock)
    try:
        with runtimes(threads) as running:
            trial = Trial(model, fusion, running, deadline)
            fused, report = _Checking(model, fusion, trial).result()
            return _outlined(fused, report, trial) if outlines else (fused, report)
    except (CannotCompareError, OutOfTimeError) as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - an error of the check is no error of the model
        expose(error)
        reason = f"comparing raised {first_line(error)}"
    return finish(fusion.model, replace(fusion.report, check=Check(reason=reason)), outlines=outlines)


def _outlined(fused: ir.Model, report: FusionReport, trial: Trial) -> tuple[ir.Model, FusionReport]:
    """Write the nodes of native kernels, and undo that if their bodies differ from the original model."""
    try:
        model, with_nodes = finish(fused, report, outlines=True)
        if not with_nodes.outlined:
            return model, with_nodes
        finding = trial.compare(Fusion(model, with_nodes))
        if not finding.differs:
            return model, with_nodes
        problem = finding.problem
    except (CannotCompareError, OutOfTimeError) as error:
        check = replace(report.check, reason=f"the nodes of native kernels were not compared: {error}")
        return model, replace(with_nodes, check=check)
    except Exception as error:  # noqa: BLE001 - the graph without these nodes was compared, and is there
        expose(error)
        problem = f"comparing raised {first_line(error)}"
    why = f"the nodes of native kernels were undone: {problem}"
    return fused, replace(report, check=replace(report.check, status="rolled back", reason=why))


class _Checking:
    """The search for rewrites whose results differ."""

    def __init__(self, model: ir.Model, first: Fusion, trial: Trial) -> None:
        self._model = model
        self._first = first
        self._trial = trial
        self._undone: dict[str, str] = {}
        # Rewritten values whose results were seen to agree.
        self._cleared: tuple[str, ...] = ()

    def result(self) -> tuple[ir.Model, FusionReport]:
        """Return the model and the report after undoing all rewrites whose results differ."""
        finding = self._trial.compare(self._first)
        if not finding.differs:
            return self._first.model, replace(
                self._first.report, check=self._check("passed", finding, self._trial.left_out(self._first))
            )
        try:
            return self._without_what_differs(finding)
        except OutOfTimeError as error:
            return self._as_far_as_cleared(f"{error} before the rest was compared again")
        except Exception as error:  # noqa: BLE001 - a graph known to differ must not stay, whatever fails
            expose(error)
            return self._as_it_came(finding.problem or f"comparing raised {first_line(error)}")

    def _without_what_differs(self, finding: Finding) -> tuple[ir.Model, FusionReport]:
        last = self._first
        while finding.differs:
            guilty = {name: _words(name, how) for name, how in finding.guilty.items() if name not in self._undone}
            self._cleared = tuple(name for name in last.values if name not in finding.guilty) if guilty else ()
            guilty = guilty or self._bisected(last, finding)
            if not guilty:
                return self._as_it_came(finding.problem or next(iter(finding.guilty.values())))
            self._undone.update(guilty)
            last = self._rewritten(self._undone)
            finding = self._trial.compare(last)
        report = report_of(self._first, last, self._undone)
        return last.model, replace(report, check=self._check("rolled back", finding, _named(self._undone)))

    def _bisected(self, last: Fusion, finding: Finding) -> dict[str, str]:
        """Return the first rewritten value with which the graph differs; none if it differs without rewrites."""
        values, found = last.values, finding
        if not values or self._trial.compare(self._only(())).differs:
            return {}
        low, high = 0, len(values)
        while high - low > 1:
            middle = (low + high) // 2
            tried = self._trial.compare(self._only(values[:middle]))
            if tried.differs:
                high, found = middle, tried
            else:
                low, self._cleared = middle, values[:middle]
        guilty = values[high - 1]
        how = found.guilty.get(guilty) or found.problem or next(iter(found.guilty.values()))
        return {guilty: _words(guilty, how)}

    def _only(self, allowed: Collection[str]) -> Fusion:
        """Rewrite only these values. If one is excluded, a rule may match at another, so exclude that too."""
        excluded = {*self._first.values, *self._undone} - set(allowed)
        while True:
            fusion = self._rewritten(excluded)
            others = set(fusion.values) - set(allowed)
            if others <= excluded:
                return fusion
            excluded |= others

    def _rewritten(self, excluded: Collection[str]) -> Fusion:
        return rewrite(self._model, self._first.report.target, excluded, forms=self._first.forms)

    def _as_far_as_cleared(self, reason: str) -> tuple[ir.Model, FusionReport]:
        if not self._cleared:
            return self._as_it_came(reason)
        last = self._only(self._cleared)
        undone = {name: f"it was not cleared: {reason}" for name in self._first.values if name not in self._cleared}
        report = report_of(self._first, last, {**undone, **self._undone})
        return last.model, replace(report, check=self._check("rolled back", None, f"{_named(undone)}; {reason}"))

    def _as_it_came(self, reason: str) -> tuple[ir.Model, FusionReport]:
        model = as_it_came(self._model)
        before = unchanged(model, self._first.report.target)
        left = replace(self._first.report, rules={}, nodes=before.nodes, opset=before.opset)
        why = f"everything was undone: {reason}"
        undone = {**dict.fromkeys(self._first.values, why), **self._undone}
        report = report_of(self._first, Fusion(model, left), undone, sites_of=self._first.model)
        return model, replace(report, check=self._check("rolled back", None, why))

    def _check(self, status: CheckStatus, finding: Finding | None, reason: str | None = None) -> Check:
        return Check(
            status=status,
            reason=reason,
            worst=None if finding is None else finding.worst,
            tolerance=self._trial.tolerance,
            runtime=self._trial.runtime.name,
            sizes=tuple({tuple(case.sizes.items()): dict(case.sizes) for case in self._trial.cases}.values()),
        )


def _words(name: str, how: str) -> str:
    return f"value {name!r} was computed otherwise: {how}"


def _named(undone: Collection[str]) -> str:
    names = ", ".join(map(repr, list(undone)[:_MOST_NAMED]))
    more = f" and {len(undone) - _MOST_NAMED} more" if len(undone) > _MOST_NAMED else ""
    return f"undone: {names}{more}"
