"""``--html`` and ``--markdown`` of ``verify``."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffn_export.bundle.results import read
from ffn_export.cli.main import run

STORED = Path(__file__).parents[1] / "parity" / "judging" / "data" / "result-format-2.json"


@pytest.mark.slow
def test_a_bundles_page_shows_its_fusion_and_its_timing_too(bundle: Path) -> None:
    assert run(["verify", str(bundle), "--runtime", "ort-cpu", "--html", "r.html", "--markdown", "r.md"]) == 0
    page, summary = Path("r.html").read_text(), Path("r.md").read_text()
    assert all(f"<h2>{part}</h2>" in page for part in ("Summary", "Errors", "Properties", "Latency", "Fusion"))
    command = f"ffn-export verify {bundle} --runtime ort-cpu --html r.html --markdown r.md"
    assert command in page
    assert command in summary
    assert summary.startswith("## ✅ Passed")


def test_a_stored_result_becomes_a_page_without_its_model(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "--rejudge", str(STORED), "--html", "-", "--quiet"]) == 1
    page = capfd.readouterr().out
    assert '<p class="verdict">Failed</p>' in page
    assert "<h2>Fusion</h2>" not in page
    assert run(["verify", "--rejudge", str(STORED), "--atol", "1e-4", "--markdown", "-", "--quiet"]) == 0
    summary = capfd.readouterr().out
    assert summary.startswith("## ✅ Passed: parity of")
    assert "allowed: atol 0.0001, rtol 0" in summary


def test_a_bundle_holds_its_page(bundle: Path) -> None:
    page = (bundle / "report.html").read_text()
    assert "<code>ffn-export build d2l-ffn-addnorm --name d2l-ffn-addnorm --target ort-cpu --opset 20</code>" in page
    assert "<code>ffn-export verify exported/d2l-ffn-addnorm</code>" in page
    beside = read(bundle)
    assert beside.fusion is not None
    assert beside.fusion.count("feed_forward") == 1
    assert beside.latency is not None


def test_what_a_bundle_of_an_earlier_version_lacks_is_left_out(tmp_path: Path) -> None:
    beside = read(tmp_path)
    assert (beside.fusion, beside.latency, beside.sites) == (None, None, ())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_report_that_cannot_be_written_costs_no_other(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert run(["verify", "--rejudge", str(STORED), "--json", "/dev/full", "--html", str(page), "--quiet"]) == 2
    assert capfd.readouterr().err == "ffn-export: cannot write /dev/full: No space left on device\n"
    assert "Failed" in page.read_text()
