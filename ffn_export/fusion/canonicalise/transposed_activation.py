"""``Transpose -> activation -> Transpose back`` -> the activation alone.

A kernel-1 convolution keeps its channels in the middle; raised to a matrix product it leaves a pair of
transposes around the activation that undo each other. An element-wise function does not see them.
"""

from __future__ import annotations

from typing import Any, ClassVar

from onnxscript.rewriter import MatchResult

from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Rule

ELEMENTWISE = (
    *(("", operator) for operator in ("Relu", "Gelu", "Swish", "Tanh", "Elu", "Mish", "HardSwish", "LeakyRelu")),
    ("com.microsoft", "QuickGelu"),
)


class TransposedActivation(Rule):
    """An element-wise operator between two transposes that undo each other."""

    site: ClassVar[SiteKind] = "feed_forward"
    writes: ClassVar[str | None] = None

    def __init__(self, domain: str, operator: str) -> None:
        super().__init__()
        self.domain = domain
        self.operator = operator

    @classmethod
    def variants(cls) -> list[Rule]:
        """One for each element-wise operator."""
        return [cls(domain, operator) for domain, operator in ELEMENTWISE]

    def pattern(self, op: Any, x: Any, there: Any, back: Any) -> Any:
        """Match the sandwich."""
        inside = getattr(op, self.operator)(op.Transpose(x, perm=there), _domain=self.domain, _outputs=["activated"])
        return op.Transpose(inside, perm=back)

    def check(self, op: Any, there: Any, back: Any, **_: Any) -> MatchResult:
        """Only where the second undoes the first; others are ordinary transposes."""
        first, second = there.as_ints(), back.as_ints()
        axes = list(range(len(first)))
        if not sorted(first) == sorted(second) == axes or [first[axis] for axis in second] != axes:
            return MatchResult().fail()
        return MatchResult()

    def rewrite(self, op: Any, x: Any, activated: Any, **_: Any) -> Any:
        """Write the activation with its attributes."""
        node = activated.producer()
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        return getattr(op, self.operator)(x, _domain=self.domain, **attributes)
