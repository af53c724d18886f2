"""Finish a fused graph as its target asks: nodes of ``ai.ffn_export``, and portable functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx_ir as ir

from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose
from ffn_export.fusion.functions import outline as outlining
from ffn_export.fusion.functions import portable
from ffn_export.fusion.report import FusionReport, Site
from ffn_export.fusion.views import node_count


def outline(model: ir.Model, report: FusionReport) -> tuple[ir.Model, FusionReport]:
    """Write the nodes that the kernels of ``native/`` compute.

    Args:
        model: A fused model. It is not modified.
        report: Report of its fusion. A site keeps the form that it has inside its node.

    Returns:
        The model, and the report with the nodes by kind and the reason for each feed-forward that is not one node.
    """
    try:
        made = outlining.outlined(model)
    except Exception as error:  # noqa: BLE001 - a fault of ours costs these nodes, not the model
        expose(error)
        made = outlining.Outlined(model, {site.name: f"outlining raised {first_line(error)}" for site in report.sites})
    nodes = {**report.nodes, "after": node_count(made.model)}
    sites = tuple(_explained(site, made.left) for site in report.sites)
    return made.model, replace(report, sites=sites, nodes=nodes, outlined=made.nodes)


def finish(
    model: ir.Model, report: FusionReport, *, outlines: bool = False, portable_functions: bool = False
) -> tuple[ir.Model, FusionReport]:
    """Finish a fused graph, which is not modified.

    Write the nodes that the kernels of ``native/`` compute, or bodies for the operators of ``com.microsoft``, or both.
    """
    if outlines:
        model, report = outline(model, report)
    return portable.add(model) if portable_functions else model, report


def _explained(site: Site, left: Mapping[str, str]) -> Site:
    if site.kind != "feed_forward" or site.name not in left:
        return site
    return replace(site, reason=f"{site.reason or site.form}; not one node: {left[site.name]}")
