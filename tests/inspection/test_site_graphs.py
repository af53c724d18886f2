"""A site's nodes before and after, as they would be drawn."""

from __future__ import annotations

import json

import pytest

import ffn_export as fx
from ffn_export.fusion.forms.by_rows.split_hidden import PARTS, SPLIT_HIDDEN_LAYERS
from ffn_export.fusion.pipeline import fuse
from ffn_export.inspection.site_graph import SiteGraph
from ffn_export.inspection.site_graphs import site_graphs


@pytest.fixture(scope="module")
def drawn() -> dict[tuple[str, ...], SiteGraph]:
    model = fx.export("d2l-ffn-addnorm")
    fused, report = fuse(model, "ort")
    return {site.sites: site for site in site_graphs(model, fused, report)}


@pytest.mark.slow
def test_a_sum_and_its_norm_become_one_node(drawn: dict[tuple[str, ...], SiteGraph]) -> None:
    site = drawn["norm:0", "residual_norm:0"]
    assert site.kinds == ("norm", "residual_norm")
    assert site.before.operators == ("Add", "Add", "LayerNormalization")
    assert site.after.operators == ("com.microsoft::SkipLayerNormalization",)


def test_boxes_say_what_nodes_read_and_edges_follow_the_data(drawn: dict[tuple[str, ...], SiteGraph]) -> None:
    graph = drawn["norm:0", "residual_norm:0"].after
    assert [place.label for place in graph.places] == [
        "input 1",
        "input 2",
        "com.microsoft::SkipLayerNormalization",
        "output",
    ]
    assert graph.places[2].details == ("weight [4]", "weight [4]", "weight [4]", "epsilon 1e-05")
    assert graph.edges == ((0, 2), (1, 2), (2, 3))


def test_what_moves_numbers_between_is_part_of_a_site(drawn: dict[tuple[str, ...], SiteGraph]) -> None:
    site = drawn["feed_forward:0",]
    assert site.before.operators == ("MatMul", "Add", "Relu", "MatMul")
    graph = site.after
    assert graph.operators == ("Reshape", "com.microsoft::FusedGemm", "Shape", "Concat", "Reshape", "MatMul")
    assert graph.places[1].details == ("[-1, 4]",)
    targets = {target for _, target in graph.edges}
    assert all(index in targets for index, place in enumerate(graph.places) if place.kind != "input")


@pytest.mark.slow
def test_a_feed_forward_by_rows_is_drawn_beside_what_it_was() -> None:
    model = fx.export("bert-ffn")
    fused, report = fuse(model, "ort-cpu", forms=[SPLIT_HIDDEN_LAYERS.name])
    site = {site.sites: site for site in site_graphs(model, fused, report)}["feed_forward:0",]
    assert site.before.operators == ("MatMul", "Add", "Gelu", "MatMul", "Add")
    assert (site.after.operators[0], site.after.operators[-1]) == ("Reshape", "Reshape")
    assert site.after.operators.count("Gelu") == PARTS


@pytest.mark.slow
def test_sites_that_look_alike_are_drawn_once() -> None:
    import torch

    module = torch.nn.Sequential(*(torch.nn.RMSNorm(8, eps=1e-6) for _ in range(3)))
    model = fx.export(module, {"x": "float32[batch,8]"}, opset=18)
    fused, report = fuse(model, "ort-cpu")
    (site,) = site_graphs(model, fused, report)
    assert site.sites == ("norm:0", "norm:1", "norm:2")
    assert site.after.operators == ("RMSNormalization",)
    assert len(site.before.operators) == 7
    assert SiteGraph.from_dict(json.loads(json.dumps(site.to_dict()))) == site


def test_what_did_not_change_is_drawn_as_it_is() -> None:
    model = fx.export("d2l-ffn-addnorm")
    fused, report = fuse(model, "portable")
    drawn = site_graphs(model, fused, report)
    assert {name for site in drawn for name in site.sites} == {site.id for site in report.sites}
    assert all(site.before == site.after for site in drawn)
