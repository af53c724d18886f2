"""The chart and the README show the numbers of the pages that commands make."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from corpus import chart

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ONE_LINE = " ".join(README.split())


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_chart_and_readme_have_the_numbers_of_the_page() -> None:
    counts, graphs = chart.complete(page("fusion-coverage.md"))
    assert max(counts, key=lambda name: counts[name]) == "ffn_export"
    assert set(re.findall(r">(\d+)</text>", page("fusion-coverage.svg"))) == {str(count) for count in counts.values()}
    assert f"of {graphs}<" in page("fusion-coverage.svg")
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
