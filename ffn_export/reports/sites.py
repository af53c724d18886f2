"""The sites of a fusion as table rows, for every report."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from ffn_export.fusion.report import FusionReport, Site
from ffn_export.inspection.result import InspectedSite

AnySite = TypeVar("AnySite", Site, InspectedSite)

NUMBERS = ("d_model", "d_ff")
HEADERS = ("site", "status", *NUMBERS, "form", "rule or reason", "name")


def rows(report: FusionReport, *, verbose: bool) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each site; unless verbose, sites that are alike share a row."""
    for group in grouped(report.sites, _alike, verbose=verbose):
        site = group[0]
        widths = ("" if width is None else str(width) for width in (site.d_model, site.d_ff))
        told = why(site, verbose=verbose), site_names(group, verbose=verbose)
        yield group_label(group), site.status, *widths, site.form, *told


def grouped(sites: Iterable[AnySite], alike: Callable[[AnySite], Hashable], *, verbose: bool) -> list[list[AnySite]]:
    """Return the sites in groups that one row can show, in the order of their first; one by one if verbose."""
    groups: dict[Hashable, list[AnySite]] = {}
    for site in sites:
        groups.setdefault(site.id if verbose else alike(site), []).append(site)
    return list(groups.values())


def group_label(group: Sequence[Site | InspectedSite]) -> str:
    """Return ``residual_norm ×13``, or the identifier of a single site."""
    return group[0].id if len(group) == 1 else f"{group[0].kind} ×{len(group)}"


def site_names(group: Sequence[Site | InspectedSite], *, verbose: bool) -> str:
    """Return the names of sites that need a look: refused or rolled back; of every site if verbose."""
    first = group[0]
    if not verbose and first.status not in ("refused", "rolled back"):
        return ""
    return first.name if len(group) == 1 else f"{first.name} and {len(group) - 1} more"


def why(site: Site | InspectedSite, *, verbose: bool) -> str:
    """Return the rules or the reason of a site, with the evidence if verbose."""
    return ": ".join(filter(None, (site.rule, site.reason, site.evidence if verbose else None)))


def _alike(site: Site) -> Hashable:
    return site.kind, site.status, site.d_model, site.d_ff, site.form, site.rule, site.reason
