"""Default for each open form, from the measured kernel costs.

Whether a fused kernel is faster than the nodes that it replaces depends on the version of ONNX Runtime and on the
processor. So a target for speed fixes no form: the table of measured costs decides, and ``ffn-export tune`` measures.
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
# Activations of the feed-forwards that are measured with a whole and with a split hidden layer.
MEASURED_IN_PIECES = tuple(name for name, each in TABLE.items() if each.measured_in_pieces)
# Smallest relative gain that counts. A table is measured once, and kernel costs vary by about this between runs.
_LEAD = 0.10
# A bias may cost less inside the product, but the table has no cost for the reshapes around it.
_RESHAPES = "reshaping to rows and back is not in the table of costs: tune measures it"
# The cost of a whole product varies less, because nothing is subtracted from it.
_LEAD_OF_PRODUCT = 0.03


@dataclass(frozen=True)
class Decision:
    """Default for one open form, from the costs.

    Attributes:
        rule: Name of the form.
        used: Whether it is used by default.
        reason: Reason, in words for the report.
        evidence: The measured costs behind the reason, which belong to one machine; empty without any.
    """

    rule: str
    used: bool
    reason: str
    evidence: str = ""


def open_names(target: Target) -> tuple[str, ...]:
    """Return the names of all open forms, in the order in which they are tried."""
    by_rows, padded = [GEMM] if target.by_rows else [], [PADDED] if target.padded_widths else []
    return (*(rule.name for rule in target.open_forms), *by_rows, *padded)


def decisions(target: Target) -> Mapping[str, Decision]:
    """Return the decision on each open form, by its name."""
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
    """Return the forms that are used by default."""
    rules = frozenset(name for name, decision in decisions(target).items() if decision.used)
    return Forms(rules, pieces=_pieces(target))


def in_use(forms: Forms | None, target: Target, *, outline: bool = False) -> Forms:
    """Return the forms to fuse with.

    Args:
        forms: Forms that the caller chose; None for the defaults from the table of costs.
        target: Target of the fusion.
        outline: Whether each feed-forward will be one node. It then holds the whole feed-forward, so no hidden layer is
            split.

    Raises:
        UsageError: If the target does not leave these forms open.
    """
    if forms is None:
        forms = default_forms(target)
    check(forms, target)
    return forms.whole() if outline else forms


def for_few_bits(forms: Forms) -> Forms:
    """Return the forms without padded widths and split hidden layers, for a model that will be quantised.

    Quantising undoes both, because its kernel packs the weights that it reads.
    """
    return forms.without(PADDED).whole()


def _pieces(target: Target) -> frozenset[str]:
    """Return the activations whose feed-forwards were measured to be faster with a split hidden layer."""
    table = costs(target.provider) if target.provider is not None and target.by_rows else None
    # The gain depends on the caches, which differ between processors.
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
    """Check that the target leaves these forms open.

    Raises:
        UsageError: If it does not, or if two of them undo each other.
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
    used = after < (1 - _LEAD) * before
    return Decision(name, used, "faster as one operator here" if used else "faster apart here", words)


def _padded(table: Costs | None) -> Decision:
    before, after = (None if table is None else table.of(f"MatMul:{rows}") for rows in ("aliased", "padded"))
    # The gain depends on the caches, which differ between processors.
    if table is None or before is None or after is None or not table.is_same_processor:
        return Decision(PADDED, False, "nobody measured here what rows cost that lie 4096 bytes apart: tune does")
    words = (
        f"a product of rows that lie 4096 bytes apart costs {before:.3g} ns an element, of padded ones {after:.3g} "
        f"({_source(table)})"
    )
    used = after < (1 - _LEAD_OF_PRODUCT) * before
    return Decision(PADDED, used, "faster padded here" if used else "padding gains nothing here", words)


def _source(table: Costs) -> str:
    return f"{table.words}{'' if table.is_exact else ', the nearest that was measured'}"


def _plain(operator: str) -> str:
    """Return an operator's name without its domain and without the suffix for its use in the table."""
    return operator.rpartition("::")[2].partition(":")[0]
