"""The page in a real browser: nothing is cut off on a phone, nothing is fetched, nothing is complained about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ffn_export.fusion.report import FusionReport
from ffn_export.inspection.site_graph import SiteGraph
from ffn_export.latency.result import LatencyResult
from ffn_export.parity.judging.result import ParityResult
from ffn_export.reports.formats import Verification
from ffn_export.reports.html.page import html_page
from ffn_export.reports.text_file import write_text
from tests.browser import needs_browser, start
from tests.reports.test_html import site

__all__ = ["site"]

pytestmark = [pytest.mark.integration, needs_browser]

# What a reader would miss: boxes that the page cuts off, pictures of no size, text that is smaller than 10 pixels.
_MEASURE = """
// A phone's browser shows a wide page small to make it fit, and then calls its window wide: so the width is given.
const cut = [...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  return !e.closest('.box') && !e.closest('details:not([open])') && box.width && box.right > arguments[0] + 0.5;
});
const pictures = [...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect());
const sizes = [...document.querySelectorAll('svg text')].map(e => {
  const place = e.getScreenCTM();
  const scale = Math.hypot(place.a, place.b);  // of upright text too
  return parseFloat(getComputedStyle(e).fontSize) * scale;
});
return {
  page: document.documentElement.scrollWidth,
  cut: cut.map(e => e.outerHTML.slice(0, 80)),
  pictures: pictures.map(box => Math.min(box.width, box.height)),
  text: Math.min(...sizes),
  ink: getComputedStyle(document.body).color,
  paper: getComputedStyle(document.body).backgroundColor,
};
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from start(tmp_path_factory.mktemp("browser"))


def show(browser: Any, page: Path, width: int, scheme: str) -> dict[str, Any]:
    """Open a page in a window of a width, and return what was measured there."""
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for log in ("browser", "performance"):
        browser.get_log(log)  # of the page before
    browser.get(page.as_uri())
    measured: dict[str, Any] = browser.execute_script(_MEASURE, width)
    return measured


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (390, "dark")])
def test_page_fits_and_is_complete(
    browser: Any,
    tmp_path: Path,
    failed: ParityResult,
    latency: LatencyResult,
    fusion: FusionReport,
    site: SiteGraph,
    width: int,
    scheme: str,
) -> None:
    write_text(html_page(Verification(failed, latency=latency, fusion=fusion, sites=[site])), tmp_path / "page.html")
    seen = show(browser, tmp_path / "page.html", width, scheme)
    assert browser.title == "Failed: parity of bert-ffn.onnx against bert-ffn"
    assert (seen["page"] <= width, seen["cut"]) == (True, [])
    assert len(seen["pictures"]) == 5  # two error charts, the latency, a site before and after
    assert min(seen["pictures"]) > 30
    assert seen["text"] >= 10
    assert (sum(_channels(seen["ink"])) < sum(_channels(seen["paper"]))) == (scheme == "light")
    assert browser.get_log("browser") == []
    assert _requests(browser) == {(tmp_path / "page.html").as_uri()}


def test_the_check_finds_what_is_cut_off(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "wide.html"
    page.write_text('<!DOCTYPE html><p style="width:900px">wide</p><img src="missing.png">')
    seen = show(browser, page, 390, "light")
    assert "wide" in seen["cut"][0]
    assert seen["page"] > 390
    assert (tmp_path / "missing.png").as_uri() in _requests(browser)
    assert browser.get_log("browser") != []


def _channels(color: str) -> list[float]:
    return [float(part) for part in color[color.index("(") + 1 : -1].split(",")[:3]]


def _requests(browser: Any) -> set[str]:
    """Return what the page asked for, itself included, and not what it carries along."""
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    sent = (m["params"] for m in messages if m["method"] == "Network.requestWillBeSent")
    urls = {params["request"]["url"] for params in sent}
    return {url for url in urls if not url.startswith("data:")}
