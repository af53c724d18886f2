"""What a fusion did, site by site."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ffn_export.fusion.report import KINDS, FusionReport, Site, SiteStatus
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, add_row, new_table

SITE_STYLES: dict[SiteStatus, str] = {"fused": GOOD, "kept": QUIET, "refused": UNSURE, "rolled_back": BAD}


def fusion_table(report: FusionReport) -> RenderableType:
    """Return a summary line and one row a site: its form, and the rule or the reason for it."""
    summary = Text(_summary(report))
    if not report.sites:
        return Group(summary, Text(report.explain()))
    numbers = ("d_model", "d_ff")
    table = new_table("site", "status", *numbers, "form", "rule or reason", "name", numbers=numbers)
    for site in report.sites:
        add_row(
            table,
            site.id,
            Text(site.status, SITE_STYLES[site.status]),
            _width(site.d_model),
            _width(site.d_ff),
            site.form,
            _why(site),
            site.name,
        )
    return Group(summary, table)


def _summary(report: FusionReport) -> str:
    parts = [f"target {report.target}"]
    parts += [
        f"{what} {change['before']} -> {change['after']}"
        for what, change in (("nodes", report.nodes), ("opset", report.opset))
        if change
    ]
    for kind in KINDS:
        counts = [f"{count} {status}" for status in SITE_STYLES if (count := report.count(kind, status))]
        if counts:
            parts.append(f"{kind} {', '.join(counts)}")
    return "; ".join(parts)


def _why(site: Site) -> str:
    return ": ".join(part for part in (site.rule, site.reason) if part)


def _width(size: int | None) -> str:
    return "" if size is None else str(size)
