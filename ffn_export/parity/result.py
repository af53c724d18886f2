"""What was measured, and the verdict over it. Plain data: a stored result can be judged again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from ffn_export.parity.tolerances import Tolerances, allowed_ulps
from ffn_export.runtimes.environment import Environment

CaseStatus = Literal["passed", "failed", "skipped"]


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
    problem: str | None = None

    def failure(self, tolerances: Tolerances) -> str | None:
        """Return why this fails under the tolerances, or None."""
        if self.problem is not None:
            return f"{self.output}: {self.problem}"
        if self.unexpected:
            return f"{self.output}: {self.unexpected} elements are NaN or infinite in one of runtime and oracle"
        allowed = allowed_ulps(self.baseline_ulps, tolerances)
        # Written so that NaN fails.
        if not self.ulps <= allowed:
            return (
                f"{self.output}: error {self.ulps:.3g} units in the last place at {list(self.worst_index)}, "
                f"allowed {allowed:.3g} (PyTorch's own {self.baseline_ulps:.3g})"
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
    """

    runtime: str
    case: str
    sizes: Mapping[str, int]
    values: str
    seed: int
    outputs: tuple[OutputMetrics, ...] = ()
    error: str | None = None
    skipped: str | None = None

    def failure(self, tolerances: Tolerances) -> str | None:
        """Return why the case fails under the tolerances, or None."""
        if self.error is not None:
            return self.error
        return next((f for output in self.outputs if (f := output.failure(tolerances)) is not None), None)

    def status(self, tolerances: Tolerances) -> CaseStatus:
        """Return the verdict on this case."""
        if self.skipped is not None:
            return "skipped"
        return "passed" if self.failure(tolerances) is None else "failed"


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
    def passed(self) -> bool:
        """Whether at least one runtime judged the model and nothing failed."""
        return not self.failures

    def rejudged(self, tolerances: Tolerances) -> ParityResult:
        """Return the same measurements under other tolerances; nothing is run."""
        return replace(self, tolerances=tolerances)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the verdict beside the measurements."""
        data = asdict(self)
        data["passed"] = self.passed
        data["failures"] = list(self.failures)
        data["cases"] = [{**asdict(c), "status": c.status(self.tolerances)} for c in self.cases]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ParityResult:
        """Read what :meth:`to_dict` wrote; the verdict is derived again."""
        return cls(
            model=data["model"],
            against=data["against"],
            tolerances=Tolerances(**data["tolerances"]),
            cases=tuple(_case(case) for case in data["cases"]),
            unavailable=dict(data["unavailable"]),
            interface=tuple(data["interface"]),
            weights=tuple(WeightMetrics(**_measures(w)) for w in data["weights"]),
            placement=data["placement"],
            environment=Environment.from_dict(data["environment"]) if data["environment"] else None,
        )


def _case(data: Mapping[str, Any]) -> CaseResult:
    known = {key: value for key, value in data.items() if key != "status"}
    return CaseResult(**{**known, "outputs": tuple(OutputMetrics(**_measures(o)) for o in data["outputs"])})


_FLOATS = {f.name for metrics in (OutputMetrics, WeightMetrics) for f in fields(metrics) if f.type == "float"}


def _measures(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics as they were measured: JSON has no NaN, so one may stand there as a string."""
    numbers = {key: float(value) for key, value in data.items() if key in _FLOATS}
    return {**data, **numbers, "worst_index": tuple(data["worst_index"])}
