"""``x / sqrt(mean(x^2) + epsilon) * scale`` -> ``RMSNormalization``.

Covers: the square as ``Pow`` or ``Mul``; reciprocal and product, or division; axes in any order,
positive or negative, of one or several trailing axes; the scale on either side.
Not covered: Casts around the statistics; a norm without scale. Axes as an attribute are read, but
such a ReduceMean is older than opset 18 and keeps the graph from being raised.

Source: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", equation 4.
"""

from __future__ import annotations

from itertools import product
from typing import Any, ClassVar

import onnx_ir as ir
from onnxscript.rewriter import MatchResult

from ffn_export.fusion.constants import describe, equals, integers, scalar
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Rule, refuse


class RmsNorm(Rule):
    """Root mean square normalisation with a scale."""

    site: ClassVar[SiteKind] = "norm"
    writes: ClassVar[str | None] = "RMSNormalization"

    def __init__(self, square: str, inverse: str) -> None:
        super().__init__()
        self.square = square
        self.inverse = inverse

    @classmethod
    def variants(cls) -> list[Rule]:
        """Each way to square, with each way to divide by the root."""
        return [cls(square, inverse) for square, inverse in product(("Pow", "Mul"), ("Reciprocal", "Div"))]

    def pattern(self, op: Any, x: Any, exponent: Any, epsilon: Any, scale: Any) -> Any:
        """Match the scaled quotient."""
        squared = op.Pow(x, exponent) if self.square == "Pow" else op.Mul(x, x)
        mean = op.ReduceMean(squared, _allow_other_inputs=True, _outputs=["mean"])
        root = op.Sqrt(op.Add(mean, epsilon))
        normalised = op.Mul(x, op.Reciprocal(root)) if self.inverse == "Reciprocal" else op.Div(x, root)
        return op.Mul(normalised, scale)

    def check(
        self, op: Any, x: Any, epsilon: Any, scale: Any, mean: Any, exponent: Any = None, **_: Any
    ) -> MatchResult:
        """Refuse what the operator does not compute."""
        reduce = mean.producer()
        if self.square == "Pow" and not equals(exponent, 2.0):
            return MatchResult().fail()  # the mean of another power: no RMS norm
        if scalar(epsilon) is None:
            return refuse(f"epsilon is no constant scalar but {describe(epsilon)}", epsilon)
        if reduce.attributes.get_int("keepdims", 1) != 1:
            return refuse("the mean drops its axes (keepdims=0)", mean)
        if x.shape is None or scale.shape is None:
            return refuse("the rank of the input or of the scale is not known", x, scale)
        count = _trailing_axes(reduce, len(x.shape))
        if count is None:
            return refuse("the mean is not taken over constant trailing axes", mean)
        normalised = [x.shape[axis] for axis in range(len(x.shape) - count, len(x.shape))]
        if any(isinstance(d, ir.SymbolicDim) for d in normalised) or list(scale.shape) != normalised:
            return refuse(f"scale of shape {scale.shape} does not cover the normalised axes {normalised}", scale)
        return MatchResult()

    def rewrite(self, op: Any, x: Any, epsilon: Any, scale: Any, mean: Any, **_: Any) -> Any:
        """Write the standard operator; statistics in float32, as in PyTorch's kernels."""
        count = _trailing_axes(mean.producer(), len(x.shape))
        assert count is not None
        return op.RMSNormalization(x, scale, axis=-count, epsilon=scalar(epsilon), stash_type=1)


def _trailing_axes(reduce: ir.Node, rank: int) -> int | None:
    """Return over how many trailing axes a node reduces, or None where they are others or not known."""
    axes = integers(reduce.inputs[1]) if len(reduce.inputs) > 1 else tuple(reduce.attributes.get_ints("axes", ()))
    if not axes or not all(-rank <= axis < rank for axis in axes):
        return None
    positive = sorted({axis % rank for axis in axes})
    return len(positive) if positive == list(range(rank - len(positive), rank)) else None
