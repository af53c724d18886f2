"""``Add -> Gelu`` -> ``com.microsoft::BiasGelu``: bias and exact GELU in one kernel.

Not covered: the tanh kind, which is FastGelu's; a bias that is not one number for each feature.
"""

from __future__ import annotations

from typing import Any, ClassVar

from onnxscript.rewriter import MatchResult, RewriteRule

from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Rule, refuse
from ffn_export.fusion.shapes import is_row_of

ORT = frozenset({"ort", "ort-cuda"})


class BiasGelu(Rule):
    """Bias and erf GELU."""

    site: ClassVar[SiteKind] = "feed_forward"
    writes: ClassVar[str | None] = "com.microsoft::BiasGelu"
    targets: ClassVar[frozenset[str] | None] = ORT
    approximate: ClassVar[str] = "none"

    def __init__(self, bias_at: int) -> None:
        super().__init__()
        self.bias_at = bias_at

    @classmethod
    def variants(cls) -> list[Rule]:
        """Return both places of the bias, which only ``check`` can tell from the input."""
        return [cls(place) for place in (0, 1)]

    @classmethod
    def rules(cls) -> list[RewriteRule]:
        """Return the variants in the order of operands as written; both orders are among them."""
        return [RewriteRule(v.pattern, v.rewrite, v.check, name=v.name) for v in cls.variants()]

    def pattern(self, op: Any, x: Any, bias: Any) -> Any:
        """Match the canonical operator after a sum."""
        return op.Gelu(op.Add(*([bias, x] if self.bias_at == 0 else [x, bias])), _outputs=["gelu"])

    def check(self, op: Any, x: Any, bias: Any, gelu: Any, **_: Any) -> MatchResult:
        """Refuse a bias that the kernel does not take; the other kind of GELU is another rule's."""
        if gelu.producer().attributes.get_string("approximate", "none") != self.approximate:
            return MatchResult().fail()
        if not is_row_of(bias, x):
            return refuse(f"bias {bias.name!r} is not one number for each feature", bias)
        return MatchResult()

    def rewrite(self, op: Any, x: Any, bias: Any, **_: Any) -> Any:
        """Write the fused operator."""
        return op.BiasGelu(x, bias, _domain="com.microsoft")


class FastGelu(BiasGelu):
    """Bias and tanh GELU."""

    writes: ClassVar[str | None] = "com.microsoft::FastGelu"
    approximate: ClassVar[str] = "tanh"

    def rewrite(self, op: Any, x: Any, bias: Any, **_: Any) -> Any:
        """Write the fused operator; its bias is optional, and given here."""
        return op.FastGelu(x, bias, _domain="com.microsoft")
