"""Fusing with a check: the model and what was made of it are run, and what differs is undone.

1. The model runs on drawn inputs, with every value that was rewritten as an output beside its own.
2. The fused graph runs on the same inputs, cut at these values: each shows its own error (``cutting``), and
   those that are off are undone.
3. The fused graph runs whole. A difference that no value of its own tells, such as a graph that the runtime
   refuses or a site inside the body of an ``If``, is bisected: the first k of the rewritten values are
   rewritten and the rest left, and the smallest k that differs names the guilty one.
4. Again with these left out, until both are equal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

import onnx_ir as ir

from ffn_export.core.garbage import collected_seldom
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose
from ffn_export.fusion.decisions import in_use
from ffn_export.fusion.finish import finish
from ffn_export.fusion.forms import Forms
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
    outline: bool = False,
    portable_functions: bool = False,
    forms: Forms | None = None,
    limits: Limits | None = None,
    threads: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[ir.Model, FusionReport]:
    """Fuse the feed-forward and norm nodes of a model, and undo what turns out to compute another function.

    Whatever the model is, there is a result: at the worst, the model as it came.

    Args:
        model: Any ONNX model; it is left unchanged, and the result shares its weights.
        target: A name in ``targets.TARGETS``.
        check: Whether to run both graphs on drawn inputs and compare.
        outline: Make each feed-forward one node, of a model-local function; then none is computed in pieces.
        portable_functions: Give the operators of ``com.microsoft`` bodies in standard operators.
        forms: Which of the forms that the target leaves open are used; None means what the table of costs says.
        limits: Time and memory that the check may take.
        threads: Threads that it may use; None means the processors that this process may run on.
        clock: Tells the time in seconds.

    Returns:
        The fused model, and what became of each site; ``report.check`` says what was compared.

    Raises:
        UsageError: No target has this name, or it does not leave these forms open.
    """
    used = in_use(forms, get_target(target), outline=outline)
    fused, report = _checked(model, target, used, check, limits or Limits(), chosen_threads(threads), clock)
    return finish(fused, report, outline=outline, portable_functions=portable_functions)


def _checked(
    model: ir.Model,
    target: str,
    forms: Forms,
    check: bool,
    limits: Limits,
    threads: int,
    clock: Callable[[], float],
) -> tuple[ir.Model, FusionReport]:
    fusion = rewrite(model, target, forms=forms)
    if fusion.report.problem is not None:
        return fusion.model, replace(fusion.report, check=Check(reason=fusion.report.problem))
    if not check:
        return fusion.model, replace(fusion.report, check=NOT_ASKED_FOR)
    deadline = Deadline(limits, clock)
    try:
        with runtimes(threads) as running:
            return _Checking(model, fusion, Trial(model, fusion, running, deadline)).result()
    except (CannotCompareError, OutOfTimeError) as error:
        return fusion.model, replace(fusion.report, check=Check(reason=str(error)))
    except Exception as error:  # noqa: BLE001 - the check is a help: what fails in it is no fault of the model
        expose(error)
        reason = f"comparing raised {first_line(error)}"
        return fusion.model, replace(fusion.report, check=Check(reason=reason))


class _Checking:
    """The search for what differs."""

    def __init__(self, model: ir.Model, first: Fusion, trial: Trial) -> None:
        self._model = model
        self._first = first
        self._trial = trial
        self._undone: dict[str, str] = {}
        # Of the values that were rewritten, those that were seen to be right.
        self._cleared: tuple[str, ...] = ()

    def result(self) -> tuple[ir.Model, FusionReport]:
        """Return what is left when everything that differs is undone."""
        finding = self._trial.compare(self._first)
        if not finding.differs:
            return self._first.model, replace(self._first.report, check=self._check("passed", finding))
        try:
            return self._without_what_differs(finding)
        except OutOfTimeError as error:
            return self._as_far_as_cleared(f"{error} before the rest was compared again")
        except Exception as error:  # noqa: BLE001 - what is known to differ does not stay, whatever fails
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
        """Return the first rewritten value with which the graph differs; nothing where it differs without any."""
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
        """Rewrite nothing but these values; where one is left out, a rule may match at another."""
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
