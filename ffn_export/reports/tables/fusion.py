"""Console table of a fusion, site by site."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ffn_export.fusion.report import KINDS, Check, CheckStatus, FusionReport, Site, SiteStatus
from ffn_export.reports.tables.layout import BAD, GOOD, MOST_ROWS, QUIET, UNSURE, add_row, left_out, new_table

SITE_STYLES: dict[SiteStatus, str] = {"fused": GOOD, "kept": QUIET, "refused": UNSURE, "rolled_back": BAD}
CHECK_STYLES: dict[CheckStatus, str] = {"passed": GOOD, "rolled back": BAD, "not checked": UNSURE}


def fusion_table(report: FusionReport) -> RenderableType:
    """Return a summary line, a row for each site with its form and rule or reason, and the check's line."""
    summary = Text(_summary(report))
    if not report.sites:
        return Group(summary, Text(report.explain()), _check(report.check))
    numbers = ("d_model", "d_ff")
    table = new_table("site", "status", *numbers, "form", "rule or reason", "name", numbers=numbers)
    for site in report.sites[:MOST_ROWS]:
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
    return Group(summary, table, *left_out(report.sites), _check(report.check))


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


def _check(check: Check) -> Text:
    line = Text("fused graph run against the model: ").append(check.status, CHECK_STYLES[check.status])
    details = [] if check.reason is None else [check.reason]
    if check.worst is not None and check.tolerance is not None:
        details.append(f"worst difference {check.worst:.1e} of {check.tolerance:.1e} allowed")
    if check.sizes:
        sizes = ("x".join(map(str, each.values())) or "static" for each in check.sizes)
        names = ",".join(check.sizes[0])
        details.append(f"on {check.runtime}, {names or 'sizes'} {' '.join(sizes)}")
    return line.append(f" ({'; '.join(details)})" if details else "")


def _why(site: Site) -> str:
    return ": ".join(part for part in (site.rule, site.reason) if part)


def _width(size: int | None) -> str:
    return "" if size is None else str(size)
