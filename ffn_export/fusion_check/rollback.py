"""Report a fusion that was partly undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from ffn_export.fusion import sites
from ffn_export.fusion.engine import scoped_name
from ffn_export.fusion.pipeline import Fusion
from ffn_export.fusion.provenance import joined, rules_of
from ffn_export.fusion.report import FusionReport, Site, SiteKind
from ffn_export.fusion.targets import get_target
from ffn_export.inspection.regions import Regions


def report_of(first: Fusion, last: Fusion, undone: Mapping[str, str], sites_of: ir.Model | None = None) -> FusionReport:
    """Return the report of the last fusion, with the sites of the first that were undone.

    Args:
        first: Fusion with all rewrites.
        last: Fusion without those that were undone.
        undone: Name of a value whose rewrite was undone -> reason.
        sites_of: Model whose sites the report of ``last`` lists, if it is not the model of ``last``.
    """
    regions = Regions(last.model)
    result = _Sites(last.report.sites, sites_of or last.model)
    result.drop_refusals_beyond(first.report.sites)
    touched: set[str] = set()
    for site, reported in zip(sites.find(first.model), first.report.sites, strict=False):
        reason = next((undone[name] for name in _computed(site.nodes) if name in undone), None)
        if reason is None:
            continue
        touched.update(_computed(site.nodes))
        if reported.is_in_target_form:
            form = " ".join(node.op_type for node in regions.before(site.nodes)) or reported.form
            rolled_back = replace(reported, status="rolled back", reason=reason, form=form)
            result.place(rolled_back, _key(site))
    for node in first.model.graph.all_nodes():
        name = next((v.name for v in node.outputs if v.name in undone and v.name not in touched), None)
        kind = None if name is None else _kind(node, first.report.target)
        if name is not None and kind is not None:
            form = " ".join(n.op_type for n in regions.before([node])) or node.op_type
            rule = joined(rules_of(node)) or None
            # A feed-forward by rows ends at the same value as the plain one.
            key = (kind, name) if kind == "feed_forward" else None
            result.place(Site("", kind, scoped_name(node), "rolled back", form, rule=rule, reason=undone[name]), key)
    return replace(last.report, sites=tuple(result.sites))


_Key = tuple[SiteKind, str]


def _key(site: sites.FoundSite) -> _Key:
    """Return the key of a site in both graphs, by a value's name: node names may be empty."""
    return site.kind, str(site.nodes[-1].outputs[0].name)


class _Sites:
    """The sites of a report, some of which are replaced by sites that were undone."""

    def __init__(self, reported: Sequence[Site], model: ir.Model) -> None:
        self.sites = list(reported)
        self._place = {_key(found): index for index, found in enumerate(sites.find(model))}

    def drop_refusals_beyond(self, first: Sequence[Site]) -> None:
        """Drop refusals that appear only because the larger match around them was undone."""
        known = Counter(_refusal(site) for site in first)
        for index in reversed(range(len(self._place), len(self.sites))):
            known[_refusal(self.sites[index])] -= 1
            if known[_refusal(self.sites[index])] < 0:
                del self.sites[index]

    def place(self, undone: Site, key: _Key | None) -> None:
        """Replace the site that ends at the same value by another one, or append it."""
        index = None if key is None else self._place.get(key)
        if index is None:
            number = sum(site.kind == undone.kind for site in self.sites)
            self.sites.append(replace(undone, id=f"{undone.kind}:{number}"))
        else:
            self.sites[index] = replace(undone, id=self.sites[index].id)


def _refusal(site: Site) -> tuple[str | None, ...]:
    return site.kind, site.name, site.rule, site.reason


def _computed(nodes: tuple[ir.Node, ...]) -> list[str]:
    return [str(value.name) for node in nodes for value in node.outputs]


def _kind(node: ir.Node, target: str) -> SiteKind | None:
    """Return the kind of site of the rule that wrote a node."""
    made_by = next(reversed(rules_of(node)), None)
    chosen = get_target(target)
    kinds = {rule.name: rule.site for rule in chosen.rules} | {form.name: form.site for form in chosen.optional}
    return None if made_by is None else kinds.get(made_by)
