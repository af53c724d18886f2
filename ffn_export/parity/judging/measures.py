"""Measurements of one output, one initializer or one property. Plain data; :mod:`verdict` judges it."""

from __future__ import annotations

from dataclasses import dataclass

from ffn_export.core.plain_data import PlainData

# ULP that each wrong integer or boolean counts, far above any bound.
UNITS_OF_AN_ELEMENT = 1024


@dataclass(frozen=True)
class Deviation(PlainData):
    """Distance of an array from the oracle, over the elements that are finite in both.

    Attributes:
        max_abs: Largest absolute difference.
        relative_l2: L2 norm of the difference over that of the oracle; infinite if only the oracle is zero.
        ulps: ``max_abs`` in ULP of the output's dtype at the output's scale.
        snr_db: Signal-to-noise ratio, ``-20 log10(relative_l2)``, in dB; infinite if nothing differs.
        cosine: Cosine of the angle between the two as vectors; 1 if both are zero.
        nan: Number of NaN elements.
        inf: Number of infinite elements.
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


EXACT = Deviation()


@dataclass(frozen=True)
class OutputMetrics(PlainData):
    """Errors of one output in one run: those of the runtime, and those of PyTorch in the working dtype.

    Attributes:
        output: Name of the output.
        dtype: Element type of the output.
        scale: Largest finite magnitude of the oracle's output, without constants far beyond the rest (``fills``).
        actual: Distance of the runtime from the oracle. For integers and booleans, ``ulps`` is 1,024 for each element
            that equals neither the oracle nor PyTorch.
        baseline: Distance of PyTorch in the working dtype from the oracle.
        conditioning_ulps: Change of the oracle under one rounding of the inputs, in ULP. 0 if it was
            not measured: for an error within the bound without it, and for an output of eight numbers or more in a
            well-conditioned case, which gets no allowance.
        unexpected: Number of elements that are not finite in the runtime or in the oracle, and that equal the NaN or
            infinity of neither the oracle nor PyTorch. Excludes ``dropped``.
        unexpected_index: Index of the first unexpected element.
        dropped: Number of elements that are not finite in the oracle and in PyTorch and differ in the runtime: a
            number, or infinity for NaN and the reverse.
        frontier: ``(absolute difference, magnitude of the oracle)`` of the elements that decide, for any ``atol``
            and ``rtol``, whether ``difference <= atol + rtol * magnitude`` holds everywhere.
        problem: Reason why the output cannot be compared, such as a missing output or another shape or dtype.
        settled_ulps: Largest error of the runtime over the rows where PyTorch itself is accurate, in ULP. A row on
            which PyTorch's error is far above its usual one says nothing about the others.
        settled_baseline_ulps: Largest error of PyTorch over these rows, in ULP.
        settled_index: Index of the runtime's largest error in these rows.
        elements: Number of compared elements, which are finite; None in results older than this field.
        inner_units: One ULP of the dtype that the reference computes the output in, in ULP of the output's dtype:
            8,192 for a float32 output cast from float16.
        caveats: Caveats of the operators behind the output that may explain an error on this case.
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
    caveats: tuple[str, ...] = ()

    @property
    def is_floating(self) -> bool:
        """Whether rounding errors are possible; integers and booleans are right or wrong."""
        return "float" in self.dtype


@dataclass(frozen=True)
class WeightMetrics(PlainData):
    """One constant, compared with the parameter that it was traced to.

    Attributes:
        initializer: Name in the graph, prefixed by the name of its function if it is in one.
        parameter: Name of the module's parameter or buffer; several are joined by ``+`` if they are packed into one.
        how: Relation to the parameter: ``as it is``, ``transposed``, ``packed``, ``times 0.125``, ``1 + it`` …
        differing: Number of elements that differ from the parameter.
        max_relative: Largest difference over the largest magnitude of the parameter.
        relative_l2: L2 norm of the difference over that of the parameter; infinite of integers that differ.
        worst_index: Index of the largest difference.
    """

    initializer: str
    parameter: str
    differing: int
    max_relative: float
    worst_index: tuple[int, ...]
    how: str = "as it is"
    relative_l2: float = 0.0


@dataclass(frozen=True)
class UntracedConstant(PlainData):
    """A constant that matches no parameter, or a parameter that no constant holds.

    Attributes:
        name: Name of the constant or parameter.
        type: Dtype and shape, such as ``float32[32,64]``.
        resembles: For a constant, the parameter that it belongs to although most of its numbers differ.
    """

    name: str
    type: str
    resembles: str = ""

    @property
    def sizes(self) -> tuple[str, ...]:
        """Sorted sizes of the axes, without those of size 1; a constant and its parameter agree in them."""
        return tuple(sorted(size for size in self.type.partition("[")[2].rstrip("]").split(",") if size != "1"))


@dataclass(frozen=True)
class PropertyMetrics(PlainData):
    """One property of the reference, tested on a runtime by comparing its results in two settings.

    Attributes:
        runtime: Name of the runtime.
        property: The property, such as ``permuting tokens permutes results``.
        output: Name of the output.
        ulps: Largest difference between both settings, in ULP at the output's scale.
        relative_l2: L2 norm of the difference over that of the result in the first setting.
        baseline_ulps: PyTorch's own error on the output, which sets the bound.
        worst_index: Index of the largest difference.
        exact: Whether the bits must be equal.
        problem: Reason why the settings cannot be compared: the runtime raised, or a value is not finite in only one.
        inner_units: See :class:`OutputMetrics`.
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
