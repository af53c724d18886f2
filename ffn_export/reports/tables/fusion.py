"""Console tables of a fusion and of a quantisation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from ffn_export.fusion.forms import AS_ONE_NODE
from ffn_export.fusion.report import KINDS, SITE_STATUSES, Check, CheckStatus, FusionReport
from ffn_export.quantization.result import ROWS, QuantizationReport
from ffn_export.reports import sites
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, Table

SITE_STYLES: Mapping[str, str] = {
    "rewritten": GOOD,
    "already optimal": GOOD,
    "kept": QUIET,
    "refused": UNSURE,
    "rolled back": BAD,
}
CHECK_STYLES: dict[CheckStatus, str] = {"passed": GOOD, "rolled back": BAD, "not checked": UNSURE}


def fusion_table(report: FusionReport, *, verbose: bool = False) -> RenderableType:
    """Return a summary line, the sites with their form and rule or reason, and the check's line.

    Args:
        report: The report.
        verbose: Whether to list every site with its name and evidence. Otherwise sites that are alike share a row.
    """
    summary = Text(_summary(report))
    if not report.sites:
        return Group(summary, Text(report.explain()), *_nodes(report), _check(report.check))
    table = Table(*sites.HEADERS, numbers=sites.NUMBERS)
    for site, status, *cells in sites.rows(report, verbose=verbose):
        table.add(site, Text(status, SITE_STYLES[status]), *cells)
    return Group(summary, table, *_nodes(report), _check(report.check))


def _nodes(report: FusionReport) -> Iterator[Text]:
    for form, what in AS_ONE_NODE.items():
        if count := report.rules.get(form):
            yield Text(f"{what} as one node: {count}")
    if report.outlined:
        counts = ", ".join(f"{count} {kind}" for kind, count in report.outlined.items())
        yield Text(f"nodes of native kernels: {counts}")


def _summary(report: FusionReport) -> str:
    parts = [f"target {report.target}"]
    parts += [
        f"{what} {change['before']} -> {change['after']}"
        for what, change in (("nodes", report.nodes), ("opset", report.opset))
        if change
    ]
    for kind in KINDS:
        counts = [f"{count} {status}" for status in SITE_STATUSES if (count := report.count(kind, status))]
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


def quantization_table(report: QuantizationReport) -> RenderableType:
    """Return a summary line, a row for each matrix, a line for each product that was kept, and the warnings."""
    mib = [size / 2**20 for size in (report.bytes_before, report.bytes_after)]
    lines: list[RenderableType] = [
        Text(f"{report.form}: {len(report.weights)} matrices, {mib[0]:,.1f} MiB -> {mib[1]:,.1f} MiB")
    ]
    numbers = ("d_in", "d_out", "rounding (relative L2)")
    smoothed = ("smoothing",) if report.int8 else ()
    table = Table("matrix", *numbers, *smoothed, "products", numbers=numbers)
    for weight in report.weights:
        d_in, d_out = map(str, weight.shape)
        notes = () if weight.smoothing is None else (weight.smoothing,)
        table.add(weight.name, d_in, d_out, f"{weight.relative_l2:.2e}", *notes, ", ".join(weight.nodes))
    lines.append(table)
    if report.error is not None:
        lines.append(Text(f"relative L2 error of the outputs on the samples: {report.error:.3g}"))
    if report.sensitivities:
        lines.append(_sensitivities(report))
    lines += [Text(f"kept {node}: {reason}", UNSURE) for node, reason in (report.kept or {}).items()]
    lines += [Text(f"warning: {warning}", UNSURE) for warning in report.warnings]
    return Group(*lines)


def _sensitivities(report: QuantizationReport) -> RenderableType:
    """Return a row for the products of each input, those first that save most time for the error that they add."""
    numbers = (f"ms saved for {ROWS} rows", "error alone (relative L2)")
    table = Table("products of one input", *numbers, "in 8 bits", numbers=numbers)
    for each in report.sensitivities:
        figures = (f"{each.saved * 1e3:.3f}", f"{each.error:.2e}")
        table.add(", ".join(each.products), *figures, "yes" if each.chosen else "no")
    return table
