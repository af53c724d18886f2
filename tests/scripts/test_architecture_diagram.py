"""docs/architecture.md: its diagram is what the imports say, and its map has every folder and module."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGE = ROOT / "ffn_export"

diagram = importlib.import_module("architecture_diagram")


def test_the_diagram_in_the_page_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert diagram.main([]) == 0
    printed = capsys.readouterr().out
    found = PAGE.split("<!-- diagram:begin -->\n")[1].split("<!-- diagram:end -->")[0]
    assert found == printed, "run `make diagram`"
    assert diagram.main(["--check"]) == 0


@pytest.mark.slow
def test_another_diagram_is_refused_and_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- diagram:begin -->\nold\n<!-- diagram:end -->\nafter\n")
    monkeypatch.setattr(diagram, "PAGE", page)
    assert diagram.main(["--check"]) == 1
    assert diagram.main(["--write"]) == 0
    assert diagram.main(["--check"]) == 0
    assert page.read_text().startswith("before\n<!-- diagram:begin -->\n```mermaid\n")
    assert page.read_text().endswith("```\n<!-- diagram:end -->\nafter\n")


@pytest.mark.slow
def test_arrows_that_follow_from_others_are_left_out() -> None:
    edges = diagram.readers()
    assert "fusion" in edges["exporter"]
    assert "inspection" in edges["fusion"]
    assert "inspection" not in edges["exporter"]


def test_the_map_has_every_folder_and_module_and_no_other() -> None:
    rows = re.findall(r"^\| \[?`ffn_export/([\w/.]+)`", PAGE, re.MULTILINE)
    folders = {f"{each.parent.name}/" for each in PACKAGE.glob("*/__init__.py")}
    modules = {each.name for each in PACKAGE.glob("*.py")} - {"__init__.py"}
    assert sorted(rows) == sorted(folders | modules)
