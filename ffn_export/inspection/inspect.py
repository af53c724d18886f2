"""Inspect a model for ``ffn-export inspect``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.fusion.engine import sorted_nodes
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.report import FusionReport, Site
from ffn_export.fusion.sites import INTEGER_PRODUCTS, QUANTIZED
from ffn_export.inspection import facts, regions
from ffn_export.inspection.open_model import read
from ffn_export.inspection.result import InspectedSite, Inspection, Part, Weight

LARGEST = 10
# Operators that read weights in 8 bits or less.
_QUANTIZED = INTEGER_PRODUCTS | {QUANTIZED, "DequantizeLinear"}


def inspect(path: Path, target: str = "ort-cpu") -> Inspection:
    """Inspect an ONNX file, whose external data may be missing. A copy is fused for the target; nothing is run.

    Raises:
        UsageError: If the file or target does not exist, or the file is not an ONNX model.
    """
    opened = read(path)
    model = opened.model
    notes = [] if opened.note is None else [opened.note]
    notes += [f"operator defined in the model itself: {f.domain}::{f.name}" for f in model.functions.values()]
    fused, report = fuse(model, target)
    if report.problem is not None:
        notes.append(f"sites are not known: {report.problem}")
    sites, part_of = _sites(model, fused, report) if report.problem is None else ((), {})
    stored = _weights(model, part_of)
    return Inspection(
        model=str(path),
        producer=" ".join(filter(None, (model.producer_name, model.producer_version))),
        ir_version=model.ir_version,
        opset_imports=dict(model.opset_imports),
        inputs=tuple(facts.describe_value(v) for v in model.graph.inputs),
        outputs=tuple(facts.describe_value(v) for v in model.graph.outputs),
        operators=facts.operators(model),
        outside_standard=facts.foreign_operators(model),
        parts=_parts(stored),
        largest=tuple(sorted(stored, key=lambda w: -w.bytes)[:LARGEST]),
        target=target,
        sites=sites,
        nodes=dict(report.nodes) if report.problem is None else {},
        notes=tuple(notes),
    )


def _sites(
    model: ir.Model, fused: ir.Model, report: FusionReport
) -> tuple[tuple[InspectedSite, ...], dict[ir.Value, str]]:
    """Return the sites with their forms before and after fusing, and initializer -> kind of the site that reads it."""
    nodes_of, before_fusing = regions.nodes_of_sites(fused, report), regions.Regions(model)
    sites, part_of = [], dict[ir.Value, str]()
    for site in report.sites:
        nodes = nodes_of[site.id]
        before = before_fusing.before(nodes) if nodes else []
        read_here = regions.weights(before)
        for value in read_here:
            part_of.setdefault(value, site.kind)
        sites.append(
            InspectedSite(
                id=site.id,
                kind=site.kind,
                name=site.name,
                status=site.status,
                form_now=_form_now(before, site),
                form_after=site.form,
                rule=site.rule,
                reason=site.reason,
                evidence=site.evidence,
                bytes=sum(facts.stored_bytes(v.const_value) for v in read_here if v.const_value is not None),
            )
        )
    return tuple(sites), part_of


def _form_now(nodes: list[ir.Node], site: Site) -> str | None:
    """Return the operators of a site before fusing; unchanged operators keep the report's order."""
    operators = [node.op_type for node in sorted_nodes(nodes)]
    if site.status == "refused" or sorted(operators) == sorted(site.form.split()):
        return site.form
    return " ".join(operators) or None


def _weights(model: ir.Model, part_of: Mapping[ir.Value, str]) -> list[Weight]:
    return [
        Weight(
            name=str(value.name),
            dtype=facts.dtype_name(tensor.dtype),
            shape=tuple(tensor.shape.numpy()),
            bytes=facts.stored_bytes(tensor),
            part=part_of.get(value) or _part(value),
        )
        for value, tensor in onnx_file.weights(model)
    ]


def _part(value: ir.Value) -> str:
    """Return the part of a weight that no site reads: rows that a ``Gather`` looks up, or a matrix in few bits."""
    uses = [(usage.node.op_type, usage.idx) for usage in value.uses()]
    if any(operator == "Gather" and place == 0 for operator, place in uses):
        return "embedding"
    return "quantized product" if any(operator in _QUANTIZED for operator, _ in uses) else "other"


def _parts(weights: Iterable[Weight]) -> tuple[Part, ...]:
    groups: dict[str, list[Weight]] = defaultdict(list)
    for weight in weights:
        groups[weight.part].append(weight)
    parts = [Part(name, len(group), sum(w.bytes for w in group)) for name, group in groups.items()]
    return tuple(sorted(parts, key=lambda part: -part.bytes))
