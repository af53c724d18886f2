"""Real graphs compared with the exported ones: what a run says, and what the page of native kernels holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpus import as_exported
from corpus.architectures import by_name
from corpus.as_exported import Compared
from ffn_export.fusion.targets import NATIVE
from tests.native.provider import needs_provider

DOCS = Path(__file__).parents[2] / "docs"
GOOD = Compared("bert", None, {"FeedForward": 2, "Linear": 4, "Attention": 2}, 0, 1e-7, 2e-7)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (GOOD, "bert: right; FeedForward 2, Linear 4, Attention 2, error 1.0e-07"),
        (replace(GOOD, nodes={}, attentions_left=2, error=None), "bert: right; no node, 2 attentions left"),
        (replace(GOOD, error=0.5), "bert: outputs differ from the exported graph: 5.0e-01; "),
        (replace(GOOD, bodies_error=np.inf), "bert: those of the bodies differ from the exported graph: inf; "),
        (Compared("bert", "ExportError: no"), "bert: ExportError: no; no node"),
    ],
)
def test_a_result_is_a_line(result: Compared, said: str) -> None:
    assert as_exported.line(result).startswith(said)
    assert (result.fault() is None) == ("right" in said)


def test_nan_is_a_difference() -> None:
    assert replace(GOOD, error=float("nan")).fault() is not None


def test_the_page_holds_the_stored_results(tmp_path: Path) -> None:
    stored = json.loads((DOCS / "native-corpus.json").read_text())
    assert as_exported.words(stored) in (DOCS / "native.md").read_text()
    assert [each["name"] for each in stored["results"]] == [
        name for name, entry in by_name().items() if entry.skipped is None
    ]
    assert not [each for each in stored["results"] if Compared(**each).fault() is not None]
    page = tmp_path / "native.md"
    page.write_text(f"before\n{as_exported.BEGIN}old\n{as_exported.END}\nafter\n")
    as_exported.stored_beside(page).write_text(as_exported.stored([GOOD], {}))
    as_exported.write_page(page)
    assert "Of 1 graphs, 1 have nodes: 2 `FeedForward`, 4 `Linear`, 2 `Attention`." in page.read_text()
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")


@needs_provider
@pytest.mark.slow
def test_an_architecture_agrees_with_its_export() -> None:
    result = as_exported.run(by_name()["bert"], NATIVE)
    assert result.fault() is None
    assert dict(result.nodes) == GOOD.nodes
    assert result.attentions_left == 0


@pytest.mark.integration
def test_the_forms_of_ort_cpu_are_counted() -> None:
    result = as_exported.run(by_name()["llama"], "ort-cpu")
    assert result.fault() is None
    assert dict(result.nodes) == {"attention": 2, "rotary": 4}
    said = as_exported.summary([result, replace(GOOD, error=0.5, nodes={})])
    assert said == "2 graphs, 1 failures; attention 2, rotary 4; worst error 5.0e-01"
