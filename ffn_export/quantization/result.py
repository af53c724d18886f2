"""Results of a quantisation, as plain data for the reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ffn_export.core.plain_data import PlainData
from ffn_export.core.shown import Shown


@dataclass(frozen=True)
class QuantizedWeight:
    """A matrix that is stored in fewer bits.

    Attributes:
        name: Name of the original initializer.
        shape: ``(d_in, d_out)``.
        bytes_before: Size of the original initializer; 0 if it stays because something else reads it too.
        bytes_after: Size of the packed numbers and of the scale for each block.
        relative_l2: L2 norm of the rounding error over the L2 norm of the matrix.
        nodes: Names of the products that read the matrix.
        smoothing: With 8-bit activations, where the channels of the input are smoothed, or why they are not.
    """

    name: str
    shape: tuple[int, int]
    bytes_before: int
    bytes_after: int
    relative_l2: float
    nodes: tuple[str, ...]
    smoothing: str | None = None


@dataclass(frozen=True)
class Sensitivity:
    """Products of one input: what they cost and save in 8 bits.

    Attributes:
        products: Names of the outputs of the products.
        error: Relative L2 error of the model's outputs on the samples with these products alone in 8 bits.
        saved: Seconds that they save for :data:`ROWS` rows, measured on this machine.
        chosen: Whether they are in 8 bits in the model that was made.
    """

    products: tuple[str, ...]
    error: float
    saved: float
    chosen: bool = False

    @property
    def worth(self) -> float:
        """Seconds saved for the error added. Errors of different products add up as squares."""
        return self.saved / max(self.error**2, 1e-30)


# Rows of an input that the savings are measured for.
ROWS = 128


@dataclass(frozen=True)
class QuantizationReport(PlainData, Shown):
    """Result for each matrix product that was to be quantised.

    Attributes:
        bits: Bits of a stored number.
        block: Numbers along the input axis that share a scale.
        accuracy_level: Attribute ``accuracy_level`` of the operator: float32 at 0 and 1, 8-bit integers at 4.
        weights: The quantised matrices.
        kept: Name of a product -> reason why it was not quantised.
        warnings: Warnings about slow combinations of options.
        int8: Whether activations are in 8 bits too.
        static: Engine that activations have one scale for; None if each row has a scale.
        sensitivities: Products by their worth, the best first, if some had to stay in float32 or a plot was asked for.
        error: Relative L2 error of the outputs on the samples; None without samples.

    Examples:
        >>> report = fx.quantize("model.onnx", budget=0.1, runtimes=["ort-cpu"]).report
        >>> len(report.weights)
        2
    """

    bits: int
    block: int
    accuracy_level: int
    weights: tuple[QuantizedWeight, ...] = ()
    kept: Mapping[str, str] | None = None
    warnings: tuple[str, ...] = ()
    int8: bool = False
    static: str | None = None
    sensitivities: tuple[Sensitivity, ...] = ()
    error: float | None = None

    @property
    def form(self) -> str:
        """How the matrices are stored, in words."""
        if self.static is not None:
            here = "" if self.static == "openvino" else " (its documented limits; not run here)"
            return f"8-bit integers, one scale for each input, for {self.static}{here}"
        if self.int8:
            return "8-bit integers, a scale for each column of a matrix, and for each row of an input where it pays"
        return f"{self.bits} bits in blocks of {self.block}, accuracy level {self.accuracy_level}"

    @property
    def bytes_before(self) -> int:
        """Size of the original matrices that were removed."""
        return sum(weight.bytes_before for weight in self.weights)

    @property
    def bytes_after(self) -> int:
        """Size of the quantised matrices."""
        return sum(weight.bytes_after for weight in self.weights)

    @property
    def why_nothing(self) -> str:
        """Reason why no matrix was quantised."""
        by_reason: defaultdict[str, list[str]] = defaultdict(list)
        for node, reason in (self.kept or {}).items():
            by_reason[reason].append(node)
        kept = "; ".join(
            f"{nodes[0]}{f' and {len(nodes) - 1} more' if nodes[1:] else ''}: {reason}"
            for reason, nodes in by_reason.items()
        )
        return kept or "there is no feed-forward (--all takes other products with constant weights too)"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**super().to_dict(), "bytes_before": self.bytes_before, "bytes_after": self.bytes_after}
