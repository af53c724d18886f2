"""README is read in a minute, and every option that a page names is one of its command. tests/docs runs the blocks."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from tests.docs.blocks import blocks

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_it_is_read_in_a_minute() -> None:
    assert len(README.splitlines()) <= 120
    assert all(len(line) <= 120 for line in README.splitlines() if not line.startswith("|"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_that_a_page_names_is_one_of_its_command(page: Path) -> None:
    lines = [line for block in blocks(page) for line in block.text.splitlines()]
    for line in lines:
        found = re.match(r"\s*(?:\$ |run: )?ffn-export (\w+)(.*)", line)
        if found is None:
            continue
        known = options(found[1])
        for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", found[2].partition(" #")[0]):
            assert option in known, f"ffn-export {found[1]} has no {option}: {line}"


def options(name: str) -> set[str]:
    """Return the options of a command."""
    from ffn_export.cli.main import commands

    command = commands.get_command(click.Context(commands), name)
    assert command is not None, name
    return {"--help", *(option for parameter in command.params for option in parameter.opts)}
