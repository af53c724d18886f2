"""Console tables of an inspection: properties, operators, weights, sites."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ffn_export.inspection.result import InspectedSite, Inspection
from ffn_export.reports.tables.fusion import SITE_STYLES
from ffn_export.reports.tables.layout import MOST_ROWS, UNSURE, add_row, left_out, new_table
from ffn_export.reports.tables.signature import opset_words, signature

_BYTES = "size\n(bytes)"


def inspection_table(inspection: Inspection) -> RenderableType:
    """Return tables of properties, operators, sizes of weights, and sites before and after fusing."""
    return Group(
        _properties(inspection),
        *(Text(note, UNSURE) for note in inspection.notes),
        Text(),
        _operators(inspection),
        Text(),
        *((_parts(inspection), Text(), _largest(inspection), Text()) if inspection.parts else ()),
        *_sites(inspection),
    )


def _properties(inspection: Inspection) -> Table:
    table = new_table("property", "value")
    add_row(table, "model", inspection.model)
    for what, tensors in (("input", inspection.inputs), ("output", inspection.outputs)):
        for tensor in tensors:
            add_row(table, what, signature(tensor))
    add_row(table, "opset", opset_words(inspection.opset_imports))
    add_row(table, "producer", f"{inspection.producer or 'unnamed'}, ONNX format {inspection.ir_version}")
    add_row(table, "nodes", str(sum(inspection.operators.values())))
    add_row(table, "weights", f"{inspection.weights_bytes / 1e6:,.2f} MB ({inspection.weights_bytes:,} bytes)")
    add_row(table, "outside the standard", ", ".join(inspection.outside_standard) or "none")
    return table


def _operators(inspection: Inspection) -> Table:
    table = new_table("operator", "nodes", numbers=("nodes",))
    for operator, count in inspection.operators.items():
        add_row(table, operator, str(count))
    return table


def _parts(inspection: Inspection) -> Table:
    table = new_table("part", "initializers", _BYTES, "share\n(%)", numbers=("initializers", _BYTES, "share\n(%)"))
    total = inspection.weights_bytes or 1
    for part in inspection.parts:
        share = f"{100 * part.bytes / total:.1f}"
        add_row(table, part.name, str(part.initializers), f"{part.bytes:,}", share)
    return table


def _largest(inspection: Inspection) -> Table:
    table = new_table("largest initializers", "type", _BYTES, "part", numbers=(_BYTES,))
    for weight in inspection.largest:
        kind = f"{weight.dtype}[{','.join(map(str, weight.shape))}]"
        add_row(table, weight.name, kind, f"{weight.bytes:,}", weight.part)
    return table


def _sites(inspection: Inspection) -> tuple[RenderableType, ...]:
    if not inspection.sites:
        return (Text("no feed-forward, norm or residual + norm was found"),)
    before, after = (inspection.nodes.get(when, "?") for when in ("before", "after"))
    headline = Text(f"fused for {inspection.target} it would have {after} nodes instead of {before}")
    table = new_table("site", "status", "form now", "form after", "rule or reason", _BYTES, "name", numbers=(_BYTES,))
    for site in inspection.sites[:MOST_ROWS]:
        add_row(
            table,
            site.id,
            Text(site.status, SITE_STYLES[site.status]),
            site.form_now or "",
            "same" if site.form_after == site.form_now else site.form_after,
            _why(site),
            f"{site.bytes:,}",
            site.name,
        )
    return headline, table, *left_out(inspection.sites)


def _why(site: InspectedSite) -> str:
    return ": ".join(part for part in (site.rule, site.reason) if part)
