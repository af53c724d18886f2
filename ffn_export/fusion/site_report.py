"""List the sites of a fused graph with their status, for the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from ffn_export.fusion import sites, unfused
from ffn_export.fusion.costs import costs
from ffn_export.fusion.engine import Log, Refusal, scoped_name, sorted_nodes
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.provenance import joined, rules_of
from ffn_export.fusion.report import Site
from ffn_export.fusion.targets import SLOWER, Target

# Norm -> ONNX Runtime's kernel for a residual sum and this norm.
_IN_ONE = {
    "LayerNormalization": "SkipLayerNormalization",
    "RMSNormalization": "SkipSimplifiedLayerNormalization",
}


def report_sites(
    model: ir.Model,
    target: Target,
    forms: Forms,
    log: Log,
    left: Mapping[str, Mapping[str, str]],
    earlier: Mapping[str, tuple[str, ...]],
) -> tuple[Site, ...]:
    """Return the numbered sites of the graph, with their refusals; a refusal without a site is listed by itself.

    Args:
        model: The fused graph.
        target: Target of the fusion.
        forms: The open forms that were used.
        log: Record of the sweeps.
        left: Optional form -> name of a feed-forward -> why it does not have it.
        earlier: Notes of the graph before it was fused, from :func:`~ffn_export.fusion.provenance.notes`.
    """
    counts: Counter[str] = Counter()

    def numbered(kind: str) -> str:
        counts[kind] += 1
        return f"{kind}:{counts[kind] - 1}"

    open_refusals = list(log.refusals)
    reported = []
    for found in sites.find(model):
        site = _site(found, target, forms, numbered(found.kind), earlier)
        # A refusal of a part of a site belongs to the site, and is not listed beside it.
        own = [r for r in open_refusals if r.kind == site.kind and (r.name == site.name or _is_part(r, found))]
        if own and site.status == "kept":
            site = _with_refusals(site, own)
        open_refusals = [each for each in open_refusals if each not in own]
        for form, reasons in left.items() if site.kind == "feed_forward" else ():
            if site.name in reasons:
                site = replace(site, reason=f"{site.reason or site.form}; without {form}: {reasons[site.name]}")
        reported.append(site)
    for only_reported in unfused.find(model):
        site = _unfused(only_reported, numbered("feed_forward"))
        own = [r for r in open_refusals if r.kind == site.kind and _is_part(r, only_reported)]
        open_refusals = [each for each in open_refusals if each not in own]
        reported.append(_with_refusals(site, own) if own else site)
    return (*reported, *(_refused(refusal, numbered(refusal.kind)) for refusal in open_refusals))


def _is_part(refusal: Refusal, site: sites.FoundSite | sites.Unfused) -> bool:
    return bool(refusal.nodes) and set(site.nodes).issuperset(refusal.nodes)


def _with_refusals(site: Site, own: Sequence[Refusal]) -> Site:
    """Return a site with the reasons of its refusals, after its own unless a refusal is of the whole site."""
    of_part = () if any(r.name == site.name for r in own) else (site.reason or site.form,)
    words = dict.fromkeys((*of_part, *(r.reason for r in own)))
    return replace(site, status="refused", rule=own[0].rule, reason="; ".join(words))


def _site(
    site: sites.FoundSite, target: Target, forms: Forms, identifier: str, earlier: Mapping[str, tuple[str, ...]]
) -> Site:
    rule = joined(name for node in site.nodes for name in rules_of(node)) or None
    kept = (
        target.kept.get(site.kind)
        or _not_chosen(site, target, forms)
        or site.decomposed
        or (_not_tight(site) if target.fewest_nodes else None)
    )
    return Site(
        id=identifier,
        kind=site.kind,
        name=scoped_name(site.nodes[-1]),
        status="kept" if kept else "rewritten" if _is_rewritten(site, earlier) else "already optimal",
        form=" ".join(node.op_type for node in sorted_nodes(site.nodes)),
        rule=rule,
        reason=kept,
        evidence=_evidence(site) if kept == SLOWER else None,
        activation=site.activation,
        gated=site.gated,
        d_model=site.d_model,
        d_ff=site.d_ff,
    )


def _is_rewritten(site: sites.FoundSite, earlier: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether this fusion wrote one of its nodes: notes of an earlier fusion are saved with the model."""
    return any(rules_of(node) != earlier.get(str(node.outputs[0].name), ()) for node in site.nodes)


def _unfused(found: sites.Unfused, identifier: str) -> Site:
    return Site(
        identifier,
        "feed_forward",
        scoped_name(found.nodes[-1]),
        "kept",
        " ".join(node.op_type for node in sorted_nodes(found.nodes)),
        reason=found.reason,
        activation=found.activation,
        gated=found.gated,
    )


def _not_chosen(site: sites.FoundSite, target: Target, forms: Forms) -> str | None:
    """Return why a decomposed site does not have the target's optional form for it; None if it has no such form."""
    if site.decomposed is None:
        return None
    last = site.nodes[-1]
    for form in target.optional:
        ends = any((last.domain, last.op_type) in rule.ends for rule in form.rules)
        if form.site == site.kind and ends and form.name not in forms:
            return f"{form.name} was not chosen"
    return None


def _evidence(site: sites.FoundSite) -> str | None:
    """Return the measured costs of a residual sum and its norm, as two nodes and as one; None without any."""
    table, norm = costs(), site.nodes[-1].op_type
    one = _IN_ONE.get(norm)
    if table is None or one is None:
        return None
    cost = table.ns_per_element
    apart, together = cost["Add:residual"] + cost[norm], cost[f"com.microsoft::{one}"]
    return f"Add and {norm} cost {apart:.2g} ns an element, {one} {together:.2g} ({table.words})"


def _not_tight(site: sites.FoundSite) -> str | None:
    if site.is_tight:
        return None
    return f"{len(site.between)} nodes compute between its two products: {sites.listed(site.between)}"


def _refused(refusal: Refusal, identifier: str) -> Site:
    return Site(
        identifier, refusal.kind, refusal.name, "refused", refusal.form, rule=refusal.rule, reason=refusal.reason
    )
