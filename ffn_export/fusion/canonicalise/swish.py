"""``x * sigmoid(alpha * x)`` -> ``Swish(alpha)``: SiLU with alpha 1, quick GELU with 1.702.

Covers: any constant alpha, any operand order. Not covered: a product with the sigmoid of another
value, which is a gate and no activation.

Source: Ramachandran, Zoph and Le 2017, "Searching for Activation Functions".
"""

from __future__ import annotations

from typing import Any, ClassVar

from onnxscript.rewriter import MatchResult

from ffn_export.fusion.constants import describe, may_widen, scalar
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Rule, refuse


class Swish(Rule):
    """Swish with its slope."""

    site: ClassVar[SiteKind] = "feed_forward"
    writes: ClassVar[str | None] = "Swish"
    spellings: ClassVar[tuple[str, ...]] = ("sigmoid(x)", "sigmoid(alpha*x)")

    def __init__(self, spelling: str) -> None:
        super().__init__()
        self.spelling = spelling

    @classmethod
    def variants(cls) -> list[Rule]:
        """With and without a factor inside the sigmoid."""
        return [cls(spelling) for spelling in cls.spellings]

    def pattern(self, op: Any, x: Any, alpha: Any) -> Any:
        """Match the product."""
        return op.Mul(x, op.Sigmoid(op.Mul(x, alpha) if self.spelling == "sigmoid(alpha*x)" else x))

    def check(self, op: Any, x: Any, alpha: Any = None, **_: Any) -> MatchResult:
        """Without a constant alpha this is another function: no match, and nothing to report."""
        if alpha is not None and scalar(alpha) is None:
            return MatchResult().fail()
        if may_widen(alpha, x):
            return refuse(f"alpha has an axis, which may give the result one that {describe(x)} lacks", alpha)
        return MatchResult()

    def rewrite(self, op: Any, x: Any, alpha: Any = None, **_: Any) -> Any:
        """Write the standard operator."""
        return op.Swish(x, alpha=1.0 if alpha is None else scalar(alpha))
