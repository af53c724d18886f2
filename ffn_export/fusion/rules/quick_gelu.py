"""Swish, in pieces or as one operator -> ``com.microsoft::QuickGelu(alpha)``: one kernel in ONNX Runtime.

ONNX Runtime has no kernel for ``Swish`` and runs its function body, Cast, Mul, Sigmoid and Mul, at opset
24 only; its QuickGelu is the same function, ``x * sigmoid(alpha * x)``, at any opset, and the fastest of
its activation kernels on CPU.
"""

from __future__ import annotations

from typing import Any, ClassVar

from onnxscript.rewriter import MatchResult

from ffn_export.fusion.canonicalise.swish import Swish
from ffn_export.fusion.constants import scalar
from ffn_export.fusion.rule import Rule


class QuickGelu(Swish):
    """Swish as ONNX Runtime's QuickGelu."""

    writes: ClassVar[str | None] = "com.microsoft::QuickGelu"
    targets: ClassVar[frozenset[str] | None] = frozenset({"ort-cpu", "ort", "ort-cuda"})
    instead_of: ClassVar[type[Rule] | None] = Swish
    spellings: ClassVar[tuple[str, ...]] = (*Swish.spellings, "Swish")

    def pattern(self, op: Any, x: Any, alpha: Any) -> Any:
        """Match the pieces or the canonical operator."""
        if self.spelling == "Swish":
            return op.Swish(x, _outputs=["swish"])
        return super().pattern(op, x, alpha)

    def check(self, op: Any, x: Any, alpha: Any = None, **_: Any) -> MatchResult:
        """Any Swish will do; its pieces are asked as the canonical rule asks them."""
        return MatchResult() if self.spelling == "Swish" else super().check(op, x, alpha)

    def rewrite(self, op: Any, x: Any, alpha: Any = None, swish: Any = None, **_: Any) -> Any:
        """Hand on alpha; both operators default to other values, so it is written out."""
        slope = 1.0 if alpha is None else scalar(alpha)
        if swish is not None:
            slope = swish.producer().attributes.get_float("alpha", 1.0)
        return op.QuickGelu(x, alpha=slope, _domain="com.microsoft")
