"""Which of the forms that a target leaves open are used where nobody says.

Whether a fused kernel is faster than the nodes that it replaces depends on the version of ONNX Runtime and on the
processor, so a target for speed fixes none of them: the table of measured costs decides, and ``ffn-export tune``
measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ffn_export.core.activations import TABLE
from ffn_export.errors import UsageError, did_you_mean
from ffn_export.fusion.by_rows.rewrite import GEMM_RULE
from ffn_export.fusion.costs import Costs, costs
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.padded_widths.units import RULE as PADDED_RULE
from ffn_export.fusion.rule import Rule
from ffn_export.fusion.targets import Target

GEMM, PADDED = GEMM_RULE, PADDED_RULE
# Activations of the feed-forwards that are measured, whole and in pieces.
MEASURED_IN_PIECES = tuple(name for name, each in TABLE.items() if each.measured_in_pieces)
# A table is measured once, and a kernel's cost varies from run to run by about so much.
_LEAD = 0.10
# A bias may cost less within the product, but the table does not hold what the reshapes around that cost.
_RESHAPES = "reshaping to rows and back is not in the table of costs: tune measures it"
# That of a whole product varies less: nothing is subtracted from it.
_LEAD_OF_PRODUCT = 0.03


@dataclass(frozen=True)
class Decision:
    """What the costs say of one open rule.

    Attributes:
        rule: Its name.
        used: Whether it is used by default.
        reason: Why, in words for the report.
    """

    rule: str
    used: bool
    reason: str


def open_names(target: Target) -> tuple[str, ...]:
    """Return the names of all that is a choice, in the order in which it is tried."""
    by_rows, padded = [GEMM] if target.by_rows else [], [PADDED] if target.padded_widths else []
    return (*(rule.name for rule in target.open_forms), *by_rows, *padded)


def decisions(target: Target) -> Mapping[str, Decision]:
    """Return what the table of costs says of each open rule, by its name."""
    if target.provider is None:
        return {}
    table = costs(target.provider)
    found = {rule.name: _decision(rule, table, unmeasured=rule in target.used_unmeasured) for rule in target.open_forms}
    if target.by_rows:
        found[GEMM] = Decision(GEMM, False, _RESHAPES)
    if target.padded_widths:
        found[PADDED] = _padded(table)
    return found


def default_forms(target: Target) -> Forms:
    """Return the forms that are used where nobody chooses."""
    rules = frozenset(name for name, decision in decisions(target).items() if decision.used)
    return Forms(rules, pieces=_pieces(target))


def in_use(forms: Forms | None, target: Target, *, outline: bool = False) -> Forms:
    """Return the forms to fuse with.

    Args:
        forms: Those that somebody chose; None means what the table of costs says.
        target: What is fused for.
        outline: Whether each feed-forward will be one node, which holds the whole of it: then there are no pieces.

    Raises:
        UsageError: If the target does not leave these forms open.
    """
    if forms is None:
        forms = default_forms(target)
    check(forms, target)
    return forms.whole() if outline else forms


def for_few_bits(forms: Forms) -> Forms:
    """Return the forms without those of weights that quantising takes back: its kernel packs what it reads."""
    return forms.without(PADDED).whole()


def _pieces(target: Target) -> frozenset[str]:
    """Return the activations whose feed-forwards were measured to be faster in pieces."""
    table = costs(target.provider) if target.provider is not None and target.by_rows else None
    # It is the caches that tell, and another processor has others.
    if table is None or not table.is_same_processor:
        return frozenset()
    measured = {
        name: (table.of(f"FeedForward:{name}"), table.of(f"FeedForward:{name}:pieces")) for name in MEASURED_IN_PIECES
    }
    return frozenset(
        name
        for name, (whole, more) in measured.items()
        if whole is not None and more is not None and more < -_LEAD_OF_PRODUCT * whole
    )


def check(forms: Forms, target: Target) -> None:
    """Refuse forms that the target does not leave open.

    Raises:
        UsageError: If there are such.
    """
    known = open_names(target)
    for name in sorted(forms.rules - set(known)):
        meant = did_you_mean(name, known)
        raise UsageError(f"{name!r} is no open form of {target.name};{meant} open are {', '.join(known) or 'none'}")
    for rule in target.open_forms:
        if rule.undoes is not None and {rule.name, rule.undoes} <= forms.rules:
            raise UsageError(f"{rule.name} and {rule.undoes} undo each other: take one of them")
    if not target.by_rows and (forms.chunk is not None or forms.pieces):
        what = "pieces" if forms.pieces else "chunks"
        raise UsageError(f"{target.name} has no form in {what}: take --target ort-cpu")


def _decision(rule: type[Rule], table: Costs | None, *, unmeasured: bool) -> Decision:
    name = rule.name
    if rule.reshapes:
        return Decision(name, unmeasured, _RESHAPES)
    if not rule.replaces:
        return Decision(name, unmeasured, "no kernel tells the two forms apart: tune measures them")
    before = None if table is None else table.sum_of(rule.replaces)
    after = None if table is None else table.of(rule.costs_as)
    if table is None or before is None or after is None:
        return Decision(name, unmeasured, f"nobody measured {rule.costs_as} beside {' and '.join(rule.replaces)}")
    apart, as_one = " and ".join(map(_plain, rule.replaces)), _plain(rule.costs_as)
    words = f"{apart} cost {before:.2g} ns an element, {as_one} {after:.2g} ({_source(table)})"
    return Decision(name, after < (1 - _LEAD) * before, words)


def _padded(table: Costs | None) -> Decision:
    before, after = (None if table is None else table.of(f"MatMul:{rows}") for rows in ("aliased", "padded"))
    # It is the caches that tell, and another processor has others.
    if table is None or before is None or after is None or not table.is_same_processor:
        return Decision(PADDED, False, "nobody measured here what rows cost that lie 4096 bytes apart: tune does")
    words = (
        f"a product of rows that lie 4096 bytes apart costs {before:.3g} ns an element, of padded ones {after:.3g} "
        f"({_source(table)})"
    )
    return Decision(PADDED, after < (1 - _LEAD_OF_PRODUCT) * before, words)


def _source(table: Costs) -> str:
    return f"{table.words}{'' if table.is_exact else ', the nearest that was measured'}"


def _plain(operator: str) -> str:
    """Return an operator without its domain and the use that the table tells apart."""
    return operator.rpartition("::")[2].partition(":")[0]
