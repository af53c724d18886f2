"""The base of every rule: an onnxscript rewrite rule that says what it is for.

A rule has a ``pattern``, a ``check`` that refuses with a reason, and a ``rewrite``. Nothing is kept
on ``self`` between them: what ``check`` reads off the match, ``rewrite`` reads again.
"""

from __future__ import annotations

from typing import Any, ClassVar

from onnxscript.rewriter import MatchResult, RewriteRule, RewriteRuleClassBase

from ffn_export.fusion.matcher import AnyOrderMatcher
from ffn_export.fusion.report import SiteKind


class Rule(RewriteRuleClassBase):
    """One rewriting of one spelling into one operator.

    Attributes:
        site: Kind of the site that a refusal of this rule is reported as.
        writes: The operator that it writes, ``domain::Name`` for a vendor's; None where it only keeps
            operators that are there.
        targets: Targets that use the rule; None means all.
        instead_of: The canonical rule whose place it takes for these targets.
    """

    site: ClassVar[SiteKind]
    writes: ClassVar[str | None]
    targets: ClassVar[frozenset[str] | None] = None
    instead_of: ClassVar[type[Rule] | None] = None

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name or _kebab(type(self).__name__))

    @classmethod
    def rules(cls) -> list[RewriteRule]:
        """Return the rule in each of its spellings; it matches in any order of commutative operands."""
        return [
            RewriteRule(v.pattern, v.rewrite, v.check, matcher=AnyOrderMatcher, name=v.name) for v in cls.variants()
        ]

    @classmethod
    def variants(cls) -> list[Rule]:
        """Return the instances that cover the spellings; one, unless a subclass has several."""
        return [cls()]


def refuse(reason: str, *culprits: Any) -> MatchResult:
    """Return the failed match that refuses a site for a reason."""
    return MatchResult().fail(reason, list(culprits))


def _kebab(name: str) -> str:
    return "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))
