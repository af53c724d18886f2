"""The site builds without a warning, holds what is made, and loads nothing from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs_site import commands, compatibility, diagram, repository
from ffn_export.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.mark.integration
def test_it_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(
            r"""<(?:script|img|link|iframe)[^>]*(?:src|href)=["']?(https?:[^"' >]+)""", page.read_text()
        )
        assert loaded == [], page.name
    assert "fx.export(" in re.sub("<[^>]+>", "", (tmp_path / "api.html").read_text())


def test_each_command_has_its_section_with_its_options() -> None:
    text = commands.reference()
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == list(COMMANDS)
    assert "`--require-fusion" in text.split("## build")[1].split("\n## ")[0]


def test_versions_come_from_the_files_that_declare_them() -> None:
    rows = {line.split(" | ")[0].strip("| "): line for line in compatibility.table().splitlines()}
    assert ">=3.11" in rows["Python"]
    assert re.search(r">=2\.\d+ \| 2\.\d+", rows["torch"])


@pytest.mark.parametrize(
    ("page", "link", "moved"),
    [
        ("ci.md", "../action.yml", "repository/action.yml"),
        ("decisions/README.md", "../../SECURITY.md#x", "../repository/SECURITY.md#x"),
        ("repository/SECURITY.md", "docs/parity.md", "../parity.md"),
        ("ci.md", "parity.md#truth", "parity.md#truth"),
        ("ci.md", "https://example.org/a.md", "https://example.org/a.md"),
    ],
)
def test_links_lead_to_the_same_file_on_the_site(page: str, link: str, moved: str) -> None:
    assert repository.on_site(f"[text]({link})", page) == f"[text]({moved})"


def test_the_diagram_has_every_folder() -> None:
    drawn = diagram.svg()
    assert all(f">{folder}<" in drawn for folder in ("core", "fusion", "verbs", "cli"))
