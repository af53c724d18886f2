"""README's blocks run as they stand, and every option that a page names is one of its command."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ffn_export.cli.main import run

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BEFORE = "import numpy as np\n\narray = np.zeros((2, 5, 4), np.float32)\n"


def blocks(text: str, language: str | None = None) -> list[str]:
    """Return the fenced blocks of a page; of one language, or all."""
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [block for name, block in found if language in (None, name)]


def test_it_is_read_in_a_minute() -> None:
    assert len(README.splitlines()) <= 120
    assert all(len(line) <= 120 for line in README.splitlines() if not line.startswith("|"))


@pytest.mark.slow
def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _ = blocks(README, "python")
    small = code.replace("bert-ffn", "d2l-ffn").replace("768", "4")  # the same calls in seconds
    monkeypatch.chdir(tmp_path)
    (tmp_path / "block.py").write_text(BEFORE + small + "assert y.shape == (2, 5, 4)\n")
    runpy.run_path("block.py")


@pytest.mark.slow
def test_the_test_of_the_readme_passes(tmp_path: Path) -> None:
    _, code = blocks(README, "python")
    before = """
import ffn_export as fx
import onnx_ir as ir

module = fx.create("d2l-ffn")
ir.save(fx.export("d2l-ffn"), "encoder.onnx")
"""
    (tmp_path / "test_block.py").write_text(f"{before}\n\n{code}")
    command = [sys.executable, "-m", "pytest", "-q", "test_block.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_commands_of_the_readme_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks(README, "") for line in block.splitlines() if line.startswith("ffn-export")]
    assert len(lines) >= 7
    for line in lines:
        if line.startswith("ffn-export doctor"):
            continue  # it compiles a graph; `tests/cli/test_cli.py` runs it
        small = line.replace("bert-ffn", "d2l-ffn")  # the same commands in seconds
        assert run(shlex.split(small, comments=True)[1:]) == 0, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_that_a_page_names_is_one_of_its_command(page: Path) -> None:
    lines = [line for block in blocks(page.read_text()) for line in block.splitlines()]
    for line in lines:
        found = re.match(r"\s*(?:\$ |run: )?ffn-export (\w+)(.*)", line)
        if found is None:
            continue
        known = options(found[1])
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", found[2].partition(" #")[0]):
            assert option in known, f"ffn-export {found[1]} has no {option}: {line}"


def options(name: str) -> set[str]:
    """Return the options of a command."""
    from ffn_export.cli.main import commands

    command = commands.get_command(click.Context(commands), name)
    assert command is not None, name
    return {"--help", *(option for parameter in command.params for option in parameter.opts)}
