"""What is measured of one output, one initialiser or one property. Plain data; :mod:`verdict` judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

# Integers and booleans have no last place: each that is wrong counts so many, far above any bound.
UNITS_OF_AN_ELEMENT = 1024


@dataclass(frozen=True)
class Deviation:
    """How far an array is from the oracle, over the elements that are finite in both.

    Attributes:
        max_abs: Largest absolute difference.
        relative_l2: L2 norm of the difference over that of the oracle; infinite where only the oracle is zero.
        ulps: ``max_abs`` in units of the last place of the output's dtype at the output's own scale.
        snr_db: Signal-to-noise ratio, ``-20 log10(relative_l2)``, in dB; infinite where nothing differs.
        cosine: Cosine of the angle between both, as vectors; 1 where both are zero.
        nan: Elements that are NaN.
        inf: Elements that are infinite.
        worst_index: Index of the largest difference; empty for an output without elements.
    """

    max_abs: float = 0.0
    relative_l2: float = 0.0
    ulps: float = 0.0
    snr_db: float = float("inf")
    cosine: float = 1.0
    nan: int = 0
    inf: int = 0
    worst_index: tuple[int, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Deviation:
        """Read what ``dataclasses.asdict`` gave."""
        return cls(**measured(cls, data))


EXACT = Deviation()


@dataclass(frozen=True)
class OutputMetrics:
    """One output of one run, beside what PyTorch in the working dtype makes of it.

    Attributes:
        output: Its name.
        dtype: Element type of the output.
        scale: Largest finite magnitude of the oracle's output, besides constants far beyond the rest (``fills``).
        actual: How far the runtime is from the oracle. Of integers and booleans, the units in the last place count
            elements: 1,024 for each that neither the oracle nor PyTorch has.
        baseline: How far PyTorch in the working dtype is from the oracle.
        conditioning_ulps: How far one rounding of the inputs moves the oracle, in units of the last place; 0 on a
            well-conditioned case, where it is not measured and nothing is allowed for it.
        unexpected: Elements that are not finite in one of runtime and oracle, and that neither the oracle nor
            PyTorch has as the same NaN or infinity; but for ``dropped``.
        unexpected_index: Index of the first of them.
        dropped: Elements that are not finite in the oracle and in PyTorch, and something else here: a number, or the
            other of NaN and infinity.
        frontier: ``(absolute difference, magnitude of the oracle)`` of the elements that decide, for any ``atol``
            and ``rtol``, whether ``difference <= atol + rtol * magnitude`` holds everywhere.
        problem: What keeps it from being compared at all: a missing output, another shape or dtype.
        settled_ulps: The runtime's largest error where PyTorch has not lost its way, in units of the last place; a
            row on which PyTorch's error is far above its usual one says nothing of the others.
        settled_baseline_ulps: PyTorch's largest error there.
        settled_index: Index of the runtime's largest error there.
        elements: How many were compared, which are finite; None in a result of before that was said.
        inner_units: One unit in the last place of the dtype that the reference computes it in, in units of its own:
            8,192 of a float32 output that is cast from float16.
    """

    output: str
    dtype: str = ""
    scale: float = 0.0
    actual: Deviation = EXACT
    baseline: Deviation = EXACT
    conditioning_ulps: float = 0.0
    unexpected: int = 0
    unexpected_index: tuple[int, ...] = ()
    dropped: int = 0
    frontier: tuple[tuple[float, float], ...] = ()
    problem: str | None = None
    settled_ulps: float = 0.0
    settled_baseline_ulps: float = 0.0
    settled_index: tuple[int, ...] = ()
    elements: int | None = None
    inner_units: float = 1.0

    @property
    def is_floating(self) -> bool:
        """Whether its numbers may be off by a rounding; integers and booleans are right or wrong."""
        return "float" in self.dtype

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, without what an older result did not say and what goes without saying."""
        return _said(asdict(self), elements=None, inner_units=1.0)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OutputMetrics:
        """Read what ``dataclasses.asdict`` gave."""
        nested = {name: Deviation.from_dict(data[name]) for name in ("actual", "baseline")}
        frontier = tuple((float(error), float(size)) for error, size in data["frontier"])
        return cls(**{**measured(cls, data), **nested, "frontier": frontier})


@dataclass(frozen=True)
class WeightMetrics:
    """One constant, compared with the parameter that it was traced to.

    Attributes:
        initializer: Its name in the graph, behind that of the function that it is in.
        parameter: The module's parameter or buffer; several joined by ``+`` where they are packed into one.
        how: How it holds the parameter: ``as it is``, ``transposed``, ``packed``, ``times 0.125``, ``1 + it`` …
        differing: Number of elements that are not the parameter's.
        max_relative: Largest difference over the largest magnitude of the parameter.
        relative_l2: L2 norm of the difference over that of the parameter.
        worst_index: Where the largest difference is.
    """

    initializer: str
    parameter: str
    differing: int
    max_relative: float
    worst_index: tuple[int, ...]
    how: str = "as it is"
    relative_l2: float = 0.0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WeightMetrics:
        """Read what ``dataclasses.asdict`` gave."""
        return cls(**measured(cls, data))


@dataclass(frozen=True)
class UntracedConstant:
    """A constant that matches no parameter, or a parameter that no constant holds.

    Attributes:
        name: Its name.
        type: Its dtype and shape, such as ``float32[32,64]``.
        resembles: Of a constant, the parameter that it goes with although most of its numbers are others.
    """

    name: str
    type: str
    resembles: str = ""

    @property
    def sizes(self) -> tuple[str, ...]:
        """Sizes of its axes, in no order and without those of size 1: what a constant and its parameter share."""
        return tuple(sorted(size for size in self.type.partition("[")[2].rstrip("]").split(",") if size != "1"))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> UntracedConstant:
        """Read what ``dataclasses.asdict`` gave."""
        return cls(**measured(cls, data))


@dataclass(frozen=True)
class PropertyMetrics:
    """One property of the reference, asked of a runtime: its results in one setting beside those in another.

    Attributes:
        runtime: Name of the runtime.
        property: What was asked, such as ``permuting tokens permutes results``.
        output: Name of the output.
        ulps: Largest difference between both settings, in units of the last place at the output's own scale.
        relative_l2: L2 norm of the difference over that of the result in the first setting.
        baseline_ulps: PyTorch's own error there, which the difference is judged against.
        worst_index: Where the largest difference is.
        exact: Whether the bits must be the same.
        problem: What keeps it from being compared: the runtime raised, or a value is not finite in one setting alone.
        inner_units: As of the output.
    """

    runtime: str
    property: str
    output: str = ""
    ulps: float = 0.0
    relative_l2: float = 0.0
    baseline_ulps: float = 0.0
    worst_index: tuple[int, ...] = ()
    exact: bool = False
    problem: str | None = None
    inner_units: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as of an output."""
        return _said(asdict(self), inner_units=1.0)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PropertyMetrics:
        """Read what ``dataclasses.asdict`` gave."""
        return cls(**measured(cls, data))


def _said(data: dict[str, Any], **silent: object) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in silent or value != silent[name]}


def measured(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a kind of metrics as they were measured: JSON names NaN and infinity by strings."""
    known = {field.name: field.type for field in fields(kind)}
    given = {name: value for name, value in data.items() if name in known}
    floats = {name: float(value) for name, value in given.items() if known[name] == "float"}
    indices = {name: tuple(value) for name, value in given.items() if name.endswith("_index")}
    return {**given, **floats, **indices}
