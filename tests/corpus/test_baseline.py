"""What makes a run of the corpus fail, and what its page says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from corpus import baseline, command
from corpus.architectures import by_name
from corpus.page import page, tables
from corpus.result import Optimised, Result
from corpus.scorer import Score

COUNTS = {"feed_forward": 2, "norm": 5, "residual_norm": 4}
GOOD = Result("bert", None, 1e-7, Optimised("right", Score(COUNTS, COUNTS), 1e-7, 0.1))
LESS = {**COUNTS, "norm": 3}
LOST = replace(GOOD, ours=Optimised("right", Score(COUNTS, LESS, {"norm": {"Pow ReduceMean": 2}}), 1e-7, 0.1))


def test_a_site_that_is_lost_is_a_line(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    baseline.write([GOOD], {"bert"}, file)
    known = baseline.read(file)
    assert baseline.failures([GOOD], known) == []
    assert baseline.failures([LOST], known) == ["bert: 3 norm sites are complete, 5 were"]
    assert baseline.failures([LOST], {}) == []


def test_whatever_is_wrong_is_a_line() -> None:
    wrong = replace(GOOD, ours=Optimised("wrong", GOOD.ours.score if GOOD.ours else None, 0.5))
    crashed = replace(GOOD, ours=Optimised("crashed: ValueError: no"))
    no_graph = Result("bert", failure="ExportError: no")
    lines = baseline.failures([wrong, crashed, no_graph], {})
    assert lines == [
        "bert: wrong (error 5.0e-01)",
        "bert: crashed: ValueError: no",
        "bert: no graph to fuse: ExportError: no",
    ]


def test_an_update_keeps_architectures_that_did_not_run(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    baseline.write([GOOD], {"bert"}, file)
    baseline.write([replace(LOST, name="vit")], {"bert", "vit"}, file)
    assert baseline.read(file) == {"bert": COUNTS, "vit": LESS}
    baseline.write([], {"vit"}, file)
    assert baseline.read(file) == {"vit": LESS}


def test_the_page_counts_sites_beside_the_others() -> None:
    peer = Optimised("wrong", Score(COUNTS, COUNTS), 0.5, 0.2)
    results = [replace(LOST, peers={"ORT session": peer})]
    text = page(results, {"torch": "2.13"}) + tables(results, by_name(), [])
    assert "| norms | 3/5 | 0/5 |" in text  # the sites of a wrong graph do not count
    assert "| graphs complete and right | 0/1 | 0/1 |" in text
    assert "2 norm: Pow ReduceMean" in text
    assert "| ORT session | bert | wrong (5.0e-01) |" in text


def test_pages_print_what_a_stored_file_holds(tmp_path: Path) -> None:
    results = [replace(LOST, peers={"ORT session": Optimised("right", Score(COUNTS, COUNTS), 1e-7, 0.2)})]
    stored = {"versions": {"torch": "1.2.3"}, "results": [result.to_dict() for result in results]}
    (tmp_path / "coverage.json").write_text(json.dumps(stored))
    command.write_pages(tmp_path / "coverage.md")
    assert (tmp_path / "coverage.md").read_text() == page(results, {"torch": "1.2.3"})
    assert "Versions: torch 1.2.3." in (tmp_path / "coverage.md").read_text()
    assert "| bert | fx 20" in (tmp_path / "coverage-tables.md").read_text()
    assert ">ONNX Runtime</text>" in (tmp_path / "coverage.svg").read_text()
