"""Console tables of presets and inspections, and of the findings of `doctor`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ffn_export.inspection.result import InspectedSite, Inspection
from ffn_export.reports.sites import group_label, grouped, site_names, why
from ffn_export.reports.tables.fusion import SITE_STYLES
from ffn_export.reports.tables.layout import BAD, GOOD, QUIET, UNSURE, Table

_BYTES = "size\n(bytes)"


def inspection_table(inspection: Inspection, *, verbose: bool = False) -> RenderableType:
    """Return tables of properties, operators, sizes of weights, and sites before and after fusing.

    Args:
        inspection: The inspection.
        verbose: Whether to list every site with its name and evidence. Otherwise sites that are alike share a row.
    """
    return Group(
        _properties(inspection),
        *(Text(note, UNSURE) for note in inspection.notes),
        Text(),
        _operators(inspection),
        Text(),
        *((_parts(inspection), Text(), _largest(inspection), Text()) if inspection.parts else ()),
        *_sites(inspection, verbose=verbose),
    )


def _properties(inspection: Inspection) -> Table:
    table = Table("property", "value")
    table.add("model", inspection.model)
    for what, tensors in (("input", inspection.inputs), ("output", inspection.outputs)):
        for tensor in tensors:
            table.add(what, signature(tensor))
    table.add("opset", opset_words(inspection.opset_imports))
    table.add("producer", f"{inspection.producer or 'unnamed'}, ONNX format {inspection.ir_version}")
    table.add("nodes", str(sum(inspection.operators.values())))
    table.add("weights", f"{inspection.weights_bytes / 1e6:,.2f} MB ({inspection.weights_bytes:,} bytes)")
    table.add("outside the standard", ", ".join(inspection.outside_standard) or "none")
    return table


def _operators(inspection: Inspection) -> Table:
    rows = ((operator, str(count)) for operator, count in inspection.operators.items())
    return Table("operator", "nodes", numbers=("nodes",), rows=rows)


def _parts(inspection: Inspection) -> Table:
    table = Table("part", "initializers", _BYTES, "share\n(%)", numbers=("initializers", _BYTES, "share\n(%)"))
    total = inspection.weights_bytes or 1
    for part in inspection.parts:
        share = f"{100 * part.bytes / total:.1f}"
        table.add(part.name, str(part.initializers), f"{part.bytes:,}", share)
    return table


def _largest(inspection: Inspection) -> Table:
    table = Table("largest initializers", "type", _BYTES, "part", numbers=(_BYTES,))
    for weight in inspection.largest:
        kind = f"{weight.dtype}[{','.join(map(str, weight.shape))}]"
        table.add(weight.name, kind, f"{weight.bytes:,}", weight.part)
    return table


def _sites(inspection: Inspection, *, verbose: bool) -> tuple[RenderableType, ...]:
    if not inspection.sites:
        return (Text("no feed-forward, norm or residual + norm was found"),)
    before, after = (inspection.nodes.get(when, "?") for when in ("before", "after"))
    headline = Text(f"fused for {inspection.target} it would have {after} nodes instead of {before}")
    table = Table("site", "status", "form now", "form after", "rule or reason", _BYTES, "name", numbers=(_BYTES,))
    for group in grouped(inspection.sites, _alike, verbose=verbose):
        site = group[0]
        table.add(
            group_label(group),
            Text(site.status, SITE_STYLES[site.status]),
            site.form_now or "",
            "same" if site.form_after == site.form_now else site.form_after,
            why(site, verbose=verbose),
            f"{sum(each.bytes for each in group):,}",
            site_names(group, verbose=verbose),
        )
    return headline, table


def _alike(site: InspectedSite) -> Hashable:
    return site.kind, site.status, site.form_now, site.form_after, site.rule, site.reason


_VERDICTS = {"ok": GOOD, "note": QUIET, "problem": BAD}


def presets_table(rows: Iterable[Sequence[str]]) -> Table:
    """Return one row for each preset: name, inputs, summary, source."""
    return Table("preset", "inputs", "what it is", "source", rows=rows)


def findings_table(rows: Iterable[tuple[str, str, str]]) -> Table:
    """Return one row for each finding: subject, verdict (``ok``, ``note``, ``problem``), detail."""
    styled = ((subject, Text(verdict, _VERDICTS[verdict]), detail) for subject, verdict, detail in rows)
    return Table("what", "verdict", "detail", rows=styled)


def signature(tensor: Mapping[str, Any]) -> str:
    """Return ``x:float32[batch,seq,768]`` for a name, dtype and shape; ``[...]`` if the rank is unknown."""
    dims = "..." if tensor["shape"] is None else ",".join(map(str, tensor["shape"]))
    return f"{tensor['name']}:{tensor['dtype']}[{dims}]"


def opset_words(imports: Mapping[str, int]) -> str:
    """Return ``20, com.microsoft 1``: the default domain first, without its empty name."""
    return ", ".join(f"{domain} {version}".strip() for domain, version in sorted(imports.items()))
