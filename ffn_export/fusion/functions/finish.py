"""Finish a fused graph as asked: one node for each feed-forward, and portable functions."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose
from ffn_export.fusion.functions import outline as outlining
from ffn_export.fusion.functions import portable
from ffn_export.fusion.report import FusionReport, Site


def finish(
    model: ir.Model, report: FusionReport, *, outline: bool = False, portable_functions: bool = False
) -> tuple[ir.Model, FusionReport]:
    """Finish a fused graph. The report keeps the form that a feed-forward has inside its one node.

    Args:
        model: A fused model. It is not modified.
        report: Report of its fusion.
        outline: Whether to make each feed-forward one node; the report gets the reason for each that stays.
        portable_functions: Whether to give the operators of ``com.microsoft`` bodies in standard operators.
    """
    if outline:
        made = _outlined(model, report)
        model = made.model
        nodes = {**report.nodes, "after": sum(node.op_type != "Constant" for node in model.graph.all_nodes())}
        report = replace(report, sites=tuple(_explained(site, made.left) for site in report.sites), nodes=nodes)
    if portable_functions:
        model = portable.add(model)
    return model, report


def _outlined(model: ir.Model, report: FusionReport) -> outlining.Outlined:
    try:
        return outlining.outlined(model)
    except Exception as error:  # noqa: BLE001 - a fault of ours costs the one node, not the model
        expose(error)
        return outlining.Outlined(model, {site.name: f"outlining raised {first_line(error)}" for site in report.sites})


def _explained(site: Site, left: dict[str, str]) -> Site:
    if site.kind != "feed_forward" or site.name not in left:
        return site
    return replace(site, reason=f"{site.reason or site.form}; not one node: {left[site.name]}")
