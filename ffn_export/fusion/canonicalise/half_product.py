"""What both kinds of GELU have in common: ``x / 2 * (1 + g(x))``, in any association of the product."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

from onnxscript.rewriter import MatchResult

from ffn_export.fusion.constants import describe, equals, may_widen
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Rule, refuse

Association = Literal["half*gate first", "x*gate first", "x*half first"]
ASSOCIATIONS: tuple[Association, ...] = get_args(Association)


class HalfProduct(Rule):
    """Base of the GELU rules; a subclass writes ``g`` and checks its constants."""

    site: ClassVar[SiteKind] = "feed_forward"
    writes: ClassVar[str | None] = "Gelu"

    def __init__(self, association: Association, spelling: str) -> None:
        super().__init__()
        self.association = association
        self.spelling = spelling

    def product(self, op: Any, x: Any, half: Any, gate: Any) -> Any:
        """Return the pattern of ``x * half * gate`` in this association."""
        if self.association == "half*gate first":
            return op.Mul(x, op.Mul(half, gate))
        if self.association == "x*gate first":
            return op.Mul(op.Mul(x, gate), half)
        return op.Mul(op.Mul(x, half), gate)


def check_constants(function: str, x: Any, *expected: tuple[str, Any, float]) -> MatchResult:
    """Refuse unless each ``(meaning, value, number)`` holds, up to the rounding to the value's dtype."""
    for meaning, value, number in expected:
        if not equals(value, number):
            return refuse(f"{function} wants {meaning} = {number:.9g}, the graph has {describe(value)}", value)
        if may_widen(value, x):
            return refuse(f"{meaning} has an axis, which may give the result one that {describe(x)} lacks", value)
    return MatchResult()
