"""An optional form. ``targets`` lists those of each target in order; the forms in use are a set of their names."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import onnx_ir as ir

from ffn_export.fusion.costs import Table
from ffn_export.fusion.engine import Log
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Rule


@dataclass(frozen=True)
class Form:
    """A form that a target offers, and uses if the measured costs or the caller choose it.

    Attributes:
        name: Name for callers and reports. The nodes that it wrote carry it.
        site: Kind of site that it writes; None if it writes something else.
        default: Function that tells whether it is used if nobody chooses, by the costs on this processor, or by None if
            they were not measured.
        rules: Rules that write it, in the sweep that writes the forms of the target.
        apply: Function that writes it into a fused model whose values have types, in place: it takes the model, the
            record of applied rules and the names of values whose computation must not change. It returns, by name, the
            feed-forwards that it leaves, with the reasons. None if rules write all of it.
        undo: Function that takes it back from any model, in place. None if it stays.
        least_tokens: Smallest longest input for which ``tune`` tries it.
        in_few_bits: Whether quantised weights can have it.
    """

    name: str
    site: SiteKind | None
    default: Callable[[Table | None], bool]
    rules: tuple[type[Rule], ...] = ()
    apply: Callable[[ir.Model, Log, Collection[str]], dict[str, str]] | None = None
    undo: Callable[[ir.Model], object] | None = None
    least_tokens: int = 0
    in_few_bits: bool = True


def of_rule(rule: type[Rule], *, used: bool) -> Form:
    """Return the form that one rule writes, with a fixed default."""
    return Form(rule.name, rule.site, lambda costs: used, rules=(rule,))
