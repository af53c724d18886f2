"""What was measured, and the verdict over it. Plain data: a stored result can be judged again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from ffn_export.parity.tolerances import Tolerances, allowed_ulps, explained_ulps
from ffn_export.runtimes.environment import Environment

CaseStatus = Literal["passed", "warned", "failed", "skipped"]


@dataclass(frozen=True)
class OutputMetrics:
    """How far one output of one run is from the oracle.

    Attributes:
        output: Its name.
        dtype: Element type of the output.
        scale: Largest finite magnitude of the oracle's output.
        max_abs: Largest absolute difference over the elements that are finite in both.
        relative_l2: L2 norm of the difference over that of the oracle.
        ulps: ``max_abs`` in units of the last place of ``dtype`` at ``scale``.
        worst_index: Index of the largest difference.
        nonfinite: Elements that are NaN or infinite here.
        unexpected: Elements that are not finite in one of the two, and not the same NaN or infinity in both.
        baseline_max_abs: ``max_abs`` of the baseline, PyTorch in the working dtype.
        baseline_ulps: ``ulps`` of the baseline.
        conditioning_ulps: How far one rounding of the inputs moves the oracle, in the same units; 0 on a
            well-conditioned case, where it is not measured and nothing is allowed for it.
        problem: What keeps it from being compared at all: a missing output, another shape or dtype.
    """

    output: str
    dtype: str = ""
    scale: float = 0.0
    max_abs: float = 0.0
    relative_l2: float = 0.0
    ulps: float = 0.0
    worst_index: tuple[int, ...] = ()
    nonfinite: int = 0
    unexpected: int = 0
    baseline_max_abs: float = 0.0
    baseline_ulps: float = 0.0
    conditioning_ulps: float = 0.0
    problem: str | None = None

    def allowed(self, tolerances: Tolerances) -> float:
        """Return the largest error in ulps that passes without a warning."""
        return allowed_ulps(self.baseline_ulps, tolerances, self.conditioning_ulps)

    def factor(self, tolerances: Tolerances) -> float:
        """Return the error as a multiple of what is allowed: above 1 it is outside."""
        allowed = self.allowed(tolerances)
        if allowed:
            return self.ulps / allowed
        return math.inf if self.ulps else 0.0

    def failure(self, tolerances: Tolerances, *, excused: bool = False) -> str | None:
        """Return why this fails under the tolerances, or None.

        Args:
            tolerances: What is allowed.
            excused: Also allow what the conditioning explains.
        """
        if self.problem is not None:
            return f"{self.output}: {self.problem}"
        if self.unexpected:
            return f"{self.output}: {self.unexpected} elements are NaN or infinite in one of runtime and oracle"
        allowed = self.allowed(tolerances)
        limit = max(allowed, explained_ulps(self.conditioning_ulps, tolerances)) if excused else allowed
        # Written so that NaN fails.
        if not self.ulps <= limit:
            conditioning = f", conditioning {self.conditioning_ulps:.3g}" if self.conditioning_ulps else ""
            return (
                f"{self.output}: error {self.ulps:.3g} units in the last place at {list(self.worst_index)}, "
                f"allowed {limit:.3g} (PyTorch's own {self.baseline_ulps:.3g}{conditioning})"
            )
        return None


@dataclass(frozen=True)
class CaseResult:
    """One runtime on one case.

    Attributes:
        runtime: Name of the runtime.
        case: Name of the case, such as ``batch=3,seq=5 normal``.
        sizes: Size of each symbolic dimension.
        values: Kind of the values.
        seed: Seed that draws them.
        outputs: Metrics of each output.
        error: What the runtime raised, where it did.
        skipped: Why there is nothing to compare with, where the reference itself refuses the case.
        imprecise_operators: On an ill-conditioned case, the graph's operators that are known to be less accurate there.
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

    def failure(self, tolerances: Tolerances) -> str | None:
        """Return why the case fails under the tolerances, or None."""
        if self.error is not None:
            return self.error
        excused = bool(self.imprecise_operators)
        return next((f for output in self.outputs if (f := output.failure(tolerances, excused=excused))), None)

    def factor(self, tolerances: Tolerances) -> float:
        """Return the largest error of an output as a multiple of what is allowed; 0 where none was compared."""
        return max((output.factor(tolerances) for output in self.outputs), default=0.0)

    def warning(self, tolerances: Tolerances) -> str | None:
        """Return by how much the case leaves the bound and why that is no failure, or None."""
        if not self.imprecise_operators or self.skipped is not None or self.failure(tolerances) is not None:
            return None
        outside = next((f for output in self.outputs if (f := output.failure(tolerances))), None)
        if outside is None:
            return None
        operators = " and ".join(self.imprecise_operators)
        return (
            f"{outside}: {self.factor(tolerances):.2f} times what is allowed; "
            f"{operators} less accurate than the plain nodes on such rows"
        )

    def status(self, tolerances: Tolerances) -> CaseStatus:
        """Return the verdict on this case."""
        if self.skipped is not None:
            return "skipped"
        if self.failure(tolerances) is not None:
            return "failed"
        return "passed" if self.warning(tolerances) is None else "warned"

    def to_dict(self, tolerances: Tolerances) -> dict[str, Any]:
        """Return plain data for JSON, with the verdict under these tolerances beside the measurements."""
        warning = self.warning(tolerances)
        verdict = {"status": self.status(tolerances), "factor": self.factor(tolerances), "warning": warning}
        return {**asdict(self), **verdict}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CaseResult:
        """Read what :meth:`to_dict` wrote; the verdict is derived again."""
        known = {key: value for key, value in data.items() if key not in ("status", "factor", "warning")}
        outputs = tuple(OutputMetrics(**_measures(output)) for output in data["outputs"])
        return cls(**{**known, "outputs": outputs, "imprecise_operators": tuple(data.get("imprecise_operators", ()))})


@dataclass(frozen=True)
class WeightMetrics:
    """One initialiser, compared with the parameter that it was traced to.

    Attributes:
        initializer: Its name in the graph.
        parameter: The module's parameter or buffer.
        differing: Number of elements that are not the parameter's, rounded to the initialiser's dtype.
        max_relative: Largest difference over the largest magnitude of the parameter.
        worst_index: Where.
    """

    initializer: str
    parameter: str
    differing: int
    max_relative: float
    worst_index: tuple[int, ...]

    @property
    def failure(self) -> str | None:
        """Return why this fails, or None."""
        if not self.differing:
            return None
        return (
            f"initializer {self.initializer!r} is not parameter {self.parameter!r}: {self.differing} elements differ, "
            f"by up to {self.max_relative:.2g} of its largest, at {list(self.worst_index)}"
        )


@dataclass(frozen=True)
class ParityResult:
    """Everything that a verification found.

    Attributes:
        model: What was verified.
        against: What it was compared with.
        tolerances: What was allowed.
        cases: Each runtime on each case.
        unavailable: Runtime -> why it could not judge.
        interface: Differences of inputs, outputs and axes between the graph and the spec.
        weights: Initialisers that were traced to parameters.
        placement: Runtime -> device or provider -> nodes.
        precision: Runtime -> floating-point dtypes that it computed in.
        environment: Where it ran.
    """

    model: str
    against: str
    tolerances: Tolerances
    cases: tuple[CaseResult, ...]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    interface: tuple[str, ...] = ()
    weights: tuple[WeightMetrics, ...] = ()
    placement: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    precision: Mapping[str, str] = field(default_factory=dict)
    environment: Environment | None = None

    @property
    def judged(self) -> tuple[str, ...]:
        """The runtimes that compared at least one case."""
        return tuple(dict.fromkeys(case.runtime for case in self.cases if case.skipped is None))

    @property
    def failures(self) -> tuple[str, ...]:
        """Every reason to fail, one line each."""
        found = [*self.interface]
        found += [f for weight in self.weights if (f := weight.failure) is not None]
        found += [
            f"{case.runtime}, {case.case}: {failure}"
            for case in self.cases
            if case.skipped is None and (failure := case.failure(self.tolerances)) is not None
        ]
        if not found and not self.judged:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.unavailable.items())
            found.append(f"no runtime could judge the model ({reasons or 'none was asked'})")
        return tuple(found)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is worth a look although it is no failure, one line for each warned case."""
        return tuple(
            f"{case.runtime}, {case.case}: {warning}"
            for case in self.cases
            if (warning := case.warning(self.tolerances)) is not None
        )

    @property
    def passed(self) -> bool:
        """Whether at least one runtime judged the model and nothing failed; a warning is no failure."""
        return not self.failures

    def rejudged(self, tolerances: Tolerances) -> ParityResult:
        """Return the same measurements under other tolerances; nothing is run."""
        return replace(self, tolerances=tolerances)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the verdict beside the measurements."""
        data = asdict(self)
        data["passed"] = self.passed
        data["failures"] = list(self.failures)
        data["warnings"] = list(self.warnings)
        data["cases"] = [case.to_dict(self.tolerances) for case in self.cases]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ParityResult:
        """Read what :meth:`to_dict` wrote; the verdict is derived again."""
        return cls(
            model=data["model"],
            against=data["against"],
            tolerances=Tolerances(**data["tolerances"]),
            cases=tuple(map(CaseResult.from_dict, data["cases"])),
            unavailable=dict(data["unavailable"]),
            interface=tuple(data["interface"]),
            weights=tuple(WeightMetrics(**_measures(w)) for w in data["weights"]),
            placement=data["placement"],
            precision=dict(data.get("precision", {})),
            environment=Environment.from_dict(data["environment"]) if data["environment"] else None,
        )


_FLOATS = {f.name for metrics in (OutputMetrics, WeightMetrics) for f in fields(metrics) if f.type == "float"}


def _measures(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics as they were measured: JSON has no NaN, so one may stand there as a string."""
    numbers = {key: float(value) for key, value in data.items() if key in _FLOATS}
    return {**data, **numbers, "worst_index": tuple(data["worst_index"])}
