"""The chart and the README show the numbers of the pages that commands make."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ONE_LINE = " ".join(README.split())


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_chart_has_the_numbers_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import coverage_chart

    counts, graphs = coverage_chart.complete(page("fusion-coverage.md"))
    assert max(counts, key=lambda name: counts[name]) == "ffn_export"
    assert coverage_chart.main(["--output", str(tmp_path / "chart.svg")]) == 0
    for text in ((tmp_path / "chart.svg").read_text(), page("fusion-coverage.svg")):
        assert set(re.findall(r">(\d+)</text>", text)) == {str(count) for count in counts.values()}
        assert f"of {graphs}<" in text
    assert f"{counts['ffn_export']} of {graphs} real graphs complete and right" in ONE_LINE
    for name in ("onnxscript", "onnxruntime.transformers"):
        assert f"{name} {counts[name]}" in ONE_LINE
    assert f"ONNX Runtime's optimiser {counts['ONNX Runtime']}" in ONE_LINE


@pytest.mark.parametrize("name", ["results-cpu", "results-cpu-amd", "results-cpu-amd-zen5"])
def test_readme_has_the_times_of_the_pages(name: str) -> None:
    text = page(f"{name}.md")
    (ratio,), (cells,) = (
        re.findall(r"^\| torch \| ([\d.]+) \|", text.split("## Whole")[0], re.M),
        re.findall(r"\((\d+) m", text),
    )
    assert f" {float(ratio):.2f} " in ONE_LINE
    assert re.search(rf"\[{cells}(?: cells)?\]\(docs/{name}\.md\)", ONE_LINE)


def test_readme_has_the_faults_of_the_page() -> None:
    planted, caught = re.findall(
        r"(\d+) faults are planted one at a time, (\d+) of them are caught", page("faults.md")
    )[0]
    assert f"{caught} of {planted} planted faults" in ONE_LINE
    assert f"The tests plant {planted} faults" in page("parity.md")
