"""The page says what the results say, whatever they are called, and needs nothing but itself."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from ffn_export.fusion.report import FusionReport
from ffn_export.inspection.site_graph import OperatorGraph, Place, SiteGraph
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.bisection.result import Bisection
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.measures import PropertyMetrics
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.tolerances import Closeness, Tolerances
from ffn_export.reports.formats import Verification
from ffn_export.reports.html.error_chart import error_lines, error_svg
from ffn_export.reports.html.latency_chart import latency_svg, speed_svg
from ffn_export.reports.html.page import html_page
from ffn_export.reports.html.site_drawing import drawing
from ffn_export.reports.summary import summary
from ffn_export.reports.text_file import write_text

MakeCase = Callable[..., CaseResult]
MakeParity = Callable[..., ParityResult]

_VOID = {"meta", "link", "br", "wbr", "use", "path", "rect"}


class Page(HTMLParser):
    """What a reader sees: text, tables, and what the page would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.rows: list[list[str]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        values = {name: value or "" for name, value in attrs}
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[name] for name in ("src", "href", "xlink:href", "action") if name in values]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data
        if "style" not in self.open and data.strip():
            self.text.append(" ".join(data.split()))


@pytest.fixture
def site() -> SiteGraph:
    before = OperatorGraph(
        (
            Place("input", "input"),
            Place("operator", "Pow", ("2",)),
            Place("operator", "ReduceMean"),
            Place("operator", "Div"),
            Place("output", "output"),
        ),
        ((0, 1), (1, 2), (0, 3), (2, 3), (3, 4)),
    )
    after = OperatorGraph(
        (Place("input", "input"), Place("operator", "RMSNormalization", ("weight [768]",)), Place("output", "output")),
        ((0, 1), (1, 2)),
    )
    return SiteGraph(("norm:0", "norm:1"), before, after)


@pytest.mark.slow
def test_page_holds_every_result(
    failed: ParityResult, latency: LatencyResult, fusion: FusionReport, site: SiteGraph
) -> None:
    page = Page(html_page(Verification(failed, latency=latency, fusion=fusion, sites=[site])))
    assert page.open == []
    assert page.text.index("Failed") < page.text.index("Summary") < page.text.index("What failed")
    said = " ".join(page.text)
    assert "Norm: 3 nodes before, 1 after" in said
    assert failed.checks[0].findings[0] in said
    rows = {tuple(row[:2]): row for row in page.rows}
    assert rows["ort-cpu", "failed"] == [
        "ort-cpu",
        "failed",
        "1",
        "0",
        "1",
        "1",
        "292.40",
        "8.00",
        "36.55",
        "1.30",
        "batch=3,seq=5 large",
    ]
    # Every failing case with its numbers, or with what was raised in their place.
    assert rows["batch=3,seq=5 large", "ort-cpu"][3:7] == ["292.40", "8.00", "36.55", "1.30"]
    assert rows["loading the model", "openvino"][-1] == "openvino cannot load the model: no Gelu"
    assert rows["w2", "failed"][2] == "linear2.weight"
    assert rows["batch=8,seq=128", "ort-cpu"][-1] == "faster"
    assert rows["norm:1", "refused"][-2] == "rms_norm: epsilon is no scalar"
    assert rows["ort-cpu", "CPUExecutionProvider"] == ["ort-cpu", "CPUExecutionProvider", "9"]
    assert rows["ort-cuda", "unavailable"][2] == "the GPU wheel of onnxruntime is not installed"
    assert rows["processor", "AMD EPYC 9654 96-Core Processor"]
    assert "ffn-export verify bert-ffn.onnx --against bert-ffn --runtime ort-cpu --runtime openvino --threads 8" in said


@pytest.mark.slow
def test_times_with_copies_are_shown_apart(
    passed: ParityResult, latency: LatencyResult, gpu_latency: LatencyResult
) -> None:
    text = html_page(Verification(passed, latency=gpu_latency))
    rows = {tuple(row[:2]): row for row in Page(text).rows}
    assert rows["batch=8,seq=128", "ort-cuda"][2] == "1.000"
    assert rows["batch=8,seq=128", "ort-cuda"][-1] == "faster"
    assert rows["batch=8,seq=128", "ort-cuda with copies"][2] == "4.000"
    assert rows["batch=8,seq=128", "ort-cuda with copies"][-1] == "slower"
    assert "with copies: inputs and outputs are in host memory" in " ".join(Page(text).text)
    chart = latency_svg(gpu_latency)
    assert chart is not None
    assert "Latency of torch, ort-cpu, ort-cuda, ort-cuda with copies over tokens" in chart
    assert "copies" not in html_page(Verification(passed, latency=latency))


def test_a_timing_is_told_beside_the_machine_s_limits(passed: ParityResult, latency: LatencyResult) -> None:
    page = Page(html_page(Verification(passed, latency=latency)))
    rows = {tuple(row[:2]): row for row in page.rows}
    assert rows["batch=8,seq=128", "ort-cpu"][5:9] == ["67,368", "635.8", "0.64", "0.07"]
    assert rows["batch=1,seq=1", "ort-cpu"][6:9] == ["", "", ""]
    assert rows["batch=8,seq=128", "torch"][-1] == "baseline"
    assert "limits: products at 1,000.0 GFLOP/s (GEMM)" in " ".join(page.text)


def test_a_passed_page_shows_no_failures_and_a_warned_one_its_warnings(
    passed: ParityResult, warned: ParityResult
) -> None:
    assert "What failed" not in Page(html_page(Verification(passed))).text
    text = Page(html_page(Verification(warned))).text
    assert text[1:3] == ["Passed, 1 warned", "Parity of"]
    assert warned.warnings[0] in text


def test_properties_are_shown_with_what_is_allowed(passed: ParityResult) -> None:
    asked = (
        PropertyMetrics("ort-cpu", "permuting tokens permutes results", "y", ulps=40.0, baseline_ulps=1.0),
        PropertyMetrics("ort-cpu", "the same inputs give the same bits", "y", exact=True),
    )
    rows = Page(html_page(Verification(replace(passed, properties=asked)))).rows
    broken = next(row for row in rows if row[0].startswith("permuting"))
    assert broken[1:6] == ["failed", "ort-cpu", "y", "40.00", "16.00"]
    held = next(row for row in rows if row[0].startswith("the same inputs"))
    assert held[1:6] == ["passed", "ort-cpu", "y", "0.00", "same bits"]


def test_the_precision_that_a_runtime_computed_in_is_shown(failed: ParityResult) -> None:
    told = replace(failed, precision={"ort-cpu": "float32", "openvino": "bfloat16"})
    rows = Page(html_page(Verification(told))).rows
    assert ["ort-cpu", "CPUExecutionProvider", "9", "float32"] in rows
    assert ["openvino", "", "", "bfloat16"] in rows


def test_what_a_bisection_found_is_shown(failed: ParityResult, bisection: Bisection) -> None:
    page = Page(html_page(Verification(failed, bisection=bisection)))
    assert bisection.reason in page.text
    assert ["node", "node_gelu|1"] in page.rows
    assert ["reads", "a: inherited error 1.5 units in the last place"] in page.rows
    assert ["reads", "x: an input"] in page.rows
    assert any(row[0] == "and 2 more" for row in page.rows)
    assert "Where it went wrong" not in Page(html_page(Verification(failed))).text


def test_names_cannot_write_markup(failed: ParityResult, fusion: FusionReport, site: SiteGraph) -> None:
    evil = "<script>alert(1)</script>$x^2$&\"'"
    case = replace(failed.cases[1], case=evil, runtime=evil)
    weights = tuple(replace(weight, initializer=evil) for weight in failed.weights)
    place = replace(site.before.places[1], label=evil, details=(evil,))
    graph = replace(site.before, places=(site.before.places[0], place, *site.before.places[2:]))
    sites = [replace(site, before=graph, sites=(evil,))]
    result = replace(
        failed, model=evil, against=evil, cases=(case,), weights=weights, checks=(CheckResult.of(evil, evil, (evil,)),)
    )
    text = html_page(Verification(result, [evil], fusion=replace(fusion, target=evil), sites=sites))
    assert "<script" not in text
    page = Page(text)
    assert page.open == []
    # In the title, the heading, the tables, the charts' labels, the drawings and the commands.
    assert sum(evil in said for said in page.text) > 12


def test_nothing_is_fetched_and_no_identifier_is_used_twice(
    failed: ParityResult, latency: LatencyResult, fusion: FusionReport, site: SiteGraph
) -> None:
    two = replace(failed, cases=(*failed.cases, *(replace(case, runtime="reference") for case in failed.cases)))
    text = html_page(Verification(two, latency=latency, fusion=fusion, sites=[site]))
    page = Page(text)
    assert [link for link in page.links if not link.startswith("#")] == ["data:,"]
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


@pytest.mark.slow
def test_same_results_give_the_same_bytes(
    failed: ParityResult, latency: LatencyResult, fusion: FusionReport, site: SiteGraph, tmp_path: Path
) -> None:
    for name in ("a.html", "b.html"):
        write_text(html_page(Verification(failed, latency=latency, fusion=fusion, sites=[site])), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_chart_shows_what_the_verdict_is_made_of(case: MakeCase, parity: MakeParity) -> None:
    result = parity(case("good", 1.6), case("bad", math.nan), case("over", 32.0))
    (line,) = error_lines(result)
    assert [(point.case, point.status, point.share) for point in line.points] == [
        ("bad", "failed", math.inf),
        ("over", "failed", 4.0),
        ("good", "passed", 0.2),
    ]
    assert line.points[1].own == pytest.approx(1.3 / 8)
    (declared,) = error_lines(result.rejudged(Tolerances(closeness={"*": Closeness(1e-6)})))
    good = next(point for point in declared.points if point.case == "good")
    assert good.share == pytest.approx(1.6 * 2e-7 / 1e-6)
    assert good.own is None
    (budget,) = error_lines(result.rejudged(Tolerances(relative_l2=1e-3)))
    assert next(point.share for point in budget.points if point.case == "good") == pytest.approx(1e-4)


def test_charts_have_four_lines_at_most_each_with_its_name(
    case: MakeCase, parity: MakeParity, gpu_latency: LatencyResult
) -> None:
    runtimes = [replace(case("any", 2.0 + n), runtime=f"runtime-{n}") for n in range(5)]
    svg = error_svg(error_lines(parity(*runtimes)))
    named = [name for name in (*(f"runtime-{n}" for n in range(5)), "PyTorch itself", "allowed") if f">{name}<" in svg]
    assert named == ["runtime-2", "runtime-3", "runtime-4", "PyTorch itself", "allowed"]
    speed = speed_svg(gpu_latency)
    assert speed is not None
    assert all(f">{name}<" in speed for name in ("torch", "ort-cpu", "ort-cuda", "ort-cuda with copies"))


def test_the_headline_has_parity_speed_sites_and_size(
    passed: ParityResult, latency: LatencyResult, fusion: FusionReport
) -> None:
    text = Page(html_page(Verification(passed, latency=latency, fusion=fusion, weights_bytes=18_900_000))).text
    head = text[: text.index("At a glance")]
    assert "18.9 MB of weights" in head
    assert any(line.startswith("same function") for line in head)
    assert all(" ".join(line.words.split()) in head for line in summary(fusion, passed, latency))


def test_an_unchanged_site_is_drawn_once(passed: ParityResult, fusion: FusionReport, site: SiteGraph) -> None:
    text = html_page(Verification(passed, fusion=fusion, sites=[replace(site, after=site.before)]))
    assert "Norm: 3 nodes, unchanged" in Page(text).text
    assert text.count('class="graph"') == 1


@pytest.mark.parametrize(
    "tolerances", [Tolerances(), Tolerances(relative_l2=1e-3), Tolerances(closeness={"*": Closeness()})]
)
def test_errors_of_every_kind_can_be_drawn(tolerances: Tolerances, case: MakeCase, parity: MakeParity) -> None:
    wild = (case(str(ulps), ulps) for ulps in (0.0, 1e-30, 1e30, math.inf, math.nan))
    assert Page(html_page(Verification(parity(*wild).rejudged(tolerances)))).open == []


def test_a_result_without_anything_has_a_page(parity: MakeParity) -> None:
    page = Page(html_page(Verification(replace(parity(), environment=None))))
    assert "no runtime could judge the model (none was asked)." in page.text


def test_boxes_of_a_drawing_are_apart_and_inside(site: SiteGraph) -> None:
    drawn = drawing(site.before)
    boxes = {box.place.label: box for box in drawn.boxes}
    assert len(boxes) == 5
    for box in drawn.boxes:
        assert 0 <= box.x <= box.x + box.width <= drawn.width
        assert 0 <= box.y <= box.y + box.height <= drawn.height
    order = ["input", "Pow", "ReduceMean", "Div", "output"]
    assert all(boxes[a].y + boxes[a].height < boxes[b].y for a, b in pairwise(order))
    assert len(drawn.paths) == 5
    # Each ends in the head of an arrow, whose tip is on the box.
    assert all(re.search(r"M[\d.]+ [\d.]+L[\d.]+ [\d.]+L[\d.]+ [\d.]+$", path) for path in drawn.paths)
    # The edge that skips two layers bends around them, and does not run through their boxes.
    skipping = next(path for path in drawn.paths if path.count("L") == 4)
    passing = [float(x) for x in re.findall(r"L([\d.]+)", skipping)][:2]
    assert all(not box.x <= x <= box.x + box.width for x in passing for box in (boxes["Pow"], boxes["ReduceMean"]))
