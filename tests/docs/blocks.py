"""Fenced blocks of Markdown pages, and a shell that runs their commands in this process where it can.

A block of ``sh`` or ``python`` is run. With ``title="file"`` a block is written to that file. A comment
``<!-- not run: reason -->`` before a block leaves it out. Blocks within a comment ``<!-- before: … -->`` are run like
the others and are not shown: they make what a page takes for granted.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ffn_export.cli.main import run

ROOT = Path(__file__).parents[2]
RUN = ("sh", "python")
# Languages of blocks that are shown and not run: output, configuration, and diagrams.
SHOWN = ("text", "yaml", "mermaid", "json", "toml")
_BLOCK = re.compile(
    r'(?:<!-- not run: (?P<reason>[^>]*?) -->\s*\n)?^(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n'
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_STATUS = re.compile(r"# exit status (\d+)$")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: What the fence names.
        text: What is in it.
        line: Where it begins.
        title: The file that it is written to.
        reason: Why it is not run.
    """

    language: str
    text: str
    line: int
    title: str | None = None
    reason: str | None = None


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(found["language"], _dedented(found), _line(text, found), found["title"], found["reason"])
        for found in _BLOCK.finditer(text)
    ]


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start("language")) + 1


def _dedented(found: re.Match[str]) -> str:
    return re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE)


def execute(block: Block, names: dict[str, Any]) -> None:
    """Run a block in the current directory, Python in a namespace that the page's blocks share.

    Raises:
        AssertionError: If a command ends with another status than 0, or than that of its comment.
    """
    if block.title is not None:
        Path(block.title).parent.mkdir(parents=True, exist_ok=True)
        Path(block.title).write_text(block.text)
    elif block.language == "python":
        exec(compile(block.text, f"block at line {block.line}", "exec"), names)
    else:
        for command in commands(block.text):
            _command(command)


def commands(text: str) -> list[str]:
    """Return the commands of a block, each on one line."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _command(command: str) -> None:
    found = _STATUS.search(command)
    expected = int(found[1]) if found else 0
    plain = re.sub(r"\s#.*$", "", command)
    words = shlex.split(plain)
    if words[0] == "ffn-export" and "$" not in plain:  # what needs a shell takes a process
        status = run(words[1:])
    else:
        path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        status = subprocess.run(["bash", "-c", plain], env={**os.environ, **path}, check=False).returncode
    assert status == expected, f"exit status {status} of: {command}"
