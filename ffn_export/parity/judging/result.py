"""The measurements of a verification and their verdict. Plain data: a stored result can be judged again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

from ffn_export.core.plain_data import PlainData
from ffn_export.core.shown import Shown
from ffn_export.errors import UsageError
from ffn_export.parity.cases.extreme_values import EXTREME
from ffn_export.parity.cases.sizes.report import Sizes
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.derived_checks import DERIVED, derived_checks
from ffn_export.parity.judging.imprecise_operators import IMPRECISE
from ffn_export.parity.judging.measures import OutputMetrics, PropertyMetrics, UntracedConstant, WeightMetrics
from ffn_export.parity.judging.runtime_quirks import EMPTY_TENSORS, MEANING
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes.environment import Environment

CaseStatus = Literal["passed", "warned", "failed", "skipped"]

# Version of the stored format, increased by every change that a reader must know.
FORMAT = 2


@dataclass(frozen=True)
class CaseResult:
    """The result of one runtime on one case.

    Attributes:
        runtime: Name of the runtime.
        case: Name of the case, such as ``batch=3,seq=5 normal``.
        sizes: Size of each symbolic dimension.
        values: Kind of the values.
        seed: Seed of the drawn values.
        outputs: Metrics of each output.
        error: Error that the runtime raised, or None.
        skipped: Reason why the case was not compared, such as a reference that refuses the inputs.
        imprecise_operators: Operators of the graph that are less accurate than the nodes they replace.
        caveats: Caveats of the runtime that may explain an error on this case; those of operators are of each output.
        saved: Path of the inputs, written as an ONNX test vector; None if they were not written.
        hint: Property of the inputs that explains a failure, with a remedy; None if unknown.
    """

    runtime: str
    case: str
    sizes: Mapping[str, int]
    values: str
    seed: int
    outputs: tuple[OutputMetrics, ...] = ()
    error: str | None = None
    skipped: str | None = None
    imprecise_operators: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    saved: str | None = None
    hint: str | None = None

    def failure(self, tolerances: Tolerances) -> str | None:
        """Return why the case fails under the tolerances, or None."""
        if self.error is not None:
            return None if EMPTY_TENSORS in self.caveats else self.error
        found = (self.output_failure(output, tolerances) for output in self.outputs)
        return next((failure for failure in found if failure is not None), None)

    def output_failure(self, output: OutputMetrics, tolerances: Tolerances) -> str | None:
        """Return why an output fails, or None if it is right or its error is explained."""
        if EMPTY_TENSORS in self.caveats:
            return None
        excused = bool(self.imprecise_operators)
        tolerances = tolerances.for_case(self.runtime, self.values)
        caveats = (*self.caveats, *output.caveats)
        failure = verdict.output_failure(output, tolerances, excused=excused, caveats=caveats)
        if failure is not None and self._is_beyond_budget(tolerances) and verdict.differs_in_size(output, caveats):
            return None
        return failure

    def _is_beyond_budget(self, tolerances: Tolerances) -> bool:
        """Whether a budget is declared and the values are extreme.

        A model that is meant to differ, such as one with weights in few bits, is judged on ordinary values. Near
        zero, one rounding of the weights exceeds any budget of the output.
        """
        return tolerances.relative_l2 is not None and self.values in EXTREME

    def factor(self, tolerances: Tolerances) -> float:
        """Return the largest error of an output as a multiple of its bound; 0 if none was compared."""
        tolerances = tolerances.for_case(self.runtime, self.values)
        return max((verdict.factor(output, tolerances) for output in self.outputs), default=0.0)

    def warning(self, tolerances: Tolerances) -> str | None:
        """Return by how much the case exceeds its bound and why that is no failure, or None."""
        tolerances = tolerances.for_case(self.runtime, self.values)
        beyond = self._is_beyond_budget(tolerances)
        caveats = dict.fromkeys((*self.caveats, *(each for output in self.outputs for each in output.caveats)))
        known = bool(self.imprecise_operators or caveats or beyond)
        if not known or self.failure(tolerances) is not None:
            return None
        found = (verdict.output_failure(output, tolerances) for output in self.outputs)
        outside = self.error or next((failure for failure in found if failure is not None), None)
        if outside is None:
            return None
        operators = [
            f"{operator} {IMPRECISE.get(operator, 'is less accurate')}" for operator in self.imprecise_operators
        ]
        of_runtime = [f"{self.runtime} {MEANING[caveat]}" for caveat in caveats]
        factor = self.factor(tolerances)
        times = (
            f": {factor:.2f} times what is allowed" if factor > 1 else ""
        )  # otherwise a NaN or infinity is not the expected one
        of_budget = [f"{self.values} values are extreme, and a budget is for ordinary ones"] if beyond else []
        return f"{outside}{times}; {' and '.join([*operators, *of_runtime, *of_budget])}"

    def status(self, tolerances: Tolerances) -> CaseStatus:
        """Return the verdict on this case."""
        if self.skipped is not None:
            return "skipped"
        if self.failure(tolerances) is not None:
            return "failed"
        return "passed" if self.warning(tolerances) is None else "warned"

    def to_dict(self, tolerances: Tolerances) -> dict[str, Any]:
        """Return plain data for JSON: the measurements, and the verdict under these tolerances."""
        warning = self.warning(tolerances)
        judged = {"status": self.status(tolerances), "factor": self.factor(tolerances), "warning": warning}
        return {**asdict(self), **judged}


_EVALUATOR = "reference"  # it says what a graph means, and not where it runs


@dataclass(frozen=True)
class ParityResult(PlainData, Shown):
    """The result of a verification.

    Attributes:
        model: Name of the verified file.
        against: Name of the reference.
        tolerances: Tolerances that the measurements are judged under.
        cases: Result of each runtime on each case.
        unavailable: Runtime -> why it could not judge.
        checks: Checks that do not depend on the tolerances; :attr:`all_checks` adds those that do.
        weights: Constants that were traced to parameters.
        properties: Properties of the reference, tested on each runtime; empty if the reference has none.
        notes: Further information for the reader, such as why failing inputs could not be written.
        placement: Runtime -> device or execution provider -> number of nodes.
        precision: Runtime -> floating-point dtypes that it computed in.
        environment: Environment of the run.
        declared_by_bundle: Whether the bundle under test declares these tolerances itself.
        sizes: Uses of sizes in the graph, and sizes that were not judged; None if the caller gave the cases.
        untraced: Constants that match no parameter.
        unheld: Parameters that the module reads and no constant holds.

    Examples:
        >>> result = fx.verify("model.onnx", against="d2l-ffn", runtimes=["ort-cpu"])
        >>> result.judged
        ('ort-cpu',)
    """

    model: str
    against: str
    tolerances: Tolerances
    cases: tuple[CaseResult, ...]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[CheckResult, ...] = ()
    weights: tuple[WeightMetrics, ...] = ()
    properties: tuple[PropertyMetrics, ...] = ()
    notes: tuple[str, ...] = ()
    placement: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    precision: Mapping[str, str] = field(default_factory=dict)
    environment: Environment | None = None
    declared_by_bundle: bool = False
    sizes: Sizes | None = None
    untraced: tuple[UntracedConstant, ...] = ()
    unheld: tuple[UntracedConstant, ...] = ()
    fast: bool = False

    @property
    def all_checks(self) -> tuple[CheckResult, ...]:
        """Every check of the whole graph, including weights, properties and sizes under these tolerances."""
        return (*self.checks, *derived_checks(self))

    @property
    def judged(self) -> tuple[str, ...]:
        """The runtimes that compared at least one case."""
        return tuple(dict.fromkeys(case.runtime for case in self.cases if case.skipped is None))

    @property
    def allowance(self) -> str:
        """A caution about the verdict, in a few words; mostly empty.

        It tells that few cases were run, that the bundle under test declares the tolerances itself, or that they are so
        large that zeros would pass on most cases.
        """
        return ", ".join(filter(None, ("on a few cases only (--fast)" if self.fast else "", self._tolerance_caution)))

    @property
    def _tolerance_caution(self) -> str:
        declared = self.tolerances.declared_words()
        compared = [output for case in self.cases for output in case.outputs if output.scale > 0]
        passing = sum(self.tolerances.allows_zeros(output.output, output.scale) for output in compared)
        if 2 * passing > len(compared):
            whose = "that the bundle itself declares, " if self.declared_by_bundle else ""
            return f"under a tolerance {whose}so large that zeros would pass: {declared}"
        return f"under a tolerance that the bundle itself declares: {declared}" if self.declared_by_bundle else ""

    @property
    def failures(self) -> tuple[str, ...]:
        """Every reason of failure, one line each."""
        found = [fault for check in self.checks for fault in check.faults]
        found += [f for each in self.weights if (f := verdict.weight_failure(each, self.tolerances)) is not None]
        cases = [
            (case, failure)
            for case in self.cases
            if case.skipped is None and (failure := case.failure(self.tolerances)) is not None
        ]
        if cases and (foreign := verdict.foreign_weights(self.untraced, self.unheld)) is not None:
            found.append(foreign)
        only_empty = all(0 in case.sizes.values() for case, _ in cases)
        found += [
            f"{case.runtime}, {case.case}: {failure}{_hint(case, only_empty=only_empty)}" for case, failure in cases
        ]
        found += [
            f"{each.runtime}, {failure}"
            for each in self.properties
            if (failure := verdict.property_failure(each, self.tolerances)) is not None
        ]
        if not found and self.nothing_judged is not None:
            found.append(self.nothing_judged)
        return tuple(found)

    @property
    def nothing_judged(self) -> str | None:
        """Why nothing was compared, or None if a runtime returned an output with a finite element."""
        if not self.judged:
            if self.cases:
                return f"all {len(self.cases)} cases were skipped: {self.cases[0].skipped}"
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.unavailable.items())
            return f"no runtime could judge the model ({reasons or 'none was asked'})"
        compared = [output.elements for case in self.cases for output in case.outputs]
        if not compared or any(elements != 0 for elements in compared):
            return None
        skipped = next((f", as {case.case}: {case.skipped}" for case in self.cases if case.skipped), "")
        return f"no output had any finite element to compare{skipped}: give inputs of your own, or bounds of the axes"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Findings that are no failures: warned cases, foreign weights, runtimes that skipped most cases or all."""
        found = [
            f"{case.runtime}, {case.case}: {warning}"
            for case in self.cases
            if (warning := case.warning(self.tolerances)) is not None
        ]
        foreign = verdict.foreign_weights(self.untraced, self.unheld)
        if foreign is not None and self.passed:
            found.append(foreign)
        for runtime in self.judged:
            own = [case for case in self.cases if case.runtime == runtime]
            skipped = [case.skipped for case in own if case.skipped is not None]
            if 2 * len(skipped) > len(own):
                found.append(f"{runtime}: {len(skipped)} of {len(own)} cases were not compared: {skipped[0]}")
        if self.judged == (_EVALUATOR,) and self.unavailable:
            why = "; ".join(f"{name}: {reason}" for name, reason in self.unavailable.items())
            found.append(f"no runtime ran the model, ONNX's reference evaluator alone computed it: {why}")
        return tuple(found)

    @property
    def verdict(self) -> str:
        """The verdict in one line, with the :attr:`allowance` if it is not empty."""
        allowed = f", {self.allowance}" if self.allowance else ""
        return f"{'passed' if self.passed else 'failed'}{allowed}"

    @property
    def passed(self) -> bool:
        """Whether at least one runtime judged the model and nothing failed. A warning is no failure."""
        return not self.failures

    def rejudged(self, tolerances: Tolerances, *, declared_by_bundle: bool = False) -> ParityResult:
        """Return the same measurements under other tolerances, without running anything."""
        return replace(self, tolerances=tolerances, declared_by_bundle=declared_by_bundle)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: the measurements and the verdict."""
        return {
            "verdict": self.verdict,
            "format": FORMAT,
            **super().to_dict(),
            "cases": [case.to_dict(self.tolerances) for case in self.cases],
            "checks": [check.to_dict() for check in self.all_checks],
            "passed": self.passed,
            "failures": list(self.failures),
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote; the verdict is derived again.

        Raises:
            UsageError: If the data is no parity result, or has another format version.
            ValueError: If a field is missing or has another type.
        """
        if data.get("format") != FORMAT:
            found = data.get("format", "none")
            raise UsageError(f"this is no parity result of format {FORMAT}, which this version reads (found: {found})")
        result = super().from_dict(data)
        return replace(result, checks=tuple(check for check in result.checks if check.name not in DERIVED))


def _hint(case: CaseResult, *, only_empty: bool) -> str:
    """Return the hint of a case, or how to exclude empty axes, which some correct models cannot handle."""
    if case.hint is not None:
        return f" ({case.hint})"
    if not only_empty:
        return ""
    empty = [name for name, size in case.sizes.items() if not size]
    return f" (no size but 0 fails: where no caller gives that, declare {' and '.join(f'{n}>=1' for n in empty)})"
