"""The worked examples of CONTRIBUTING.md: reads their blocks, and applies them to a copy of the repository.

A block of Python that begins with ``# path`` is a new file. A block of ``diff`` changes the file behind ``---``: each
hunk is found by its lines, which must be in the file once, unless it was applied before.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
_COPIED = ("ffn_export", "scripts", "tests", "docs", "pyproject.toml", "native/src")
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Change:
    """What one block does to one file.

    Attributes:
        path: The file, in the repository.
        text: All of a new file; None for a change.
        hunks: Of a change, the lines before and after.
    """

    path: str
    text: str | None = None
    hunks: tuple[tuple[str, str], ...] = ()

    def apply(self, root: Path) -> None:
        """Make the change in a copy of the repository, unless somebody followed the example and it is there."""
        file = root / self.path
        if self.text is not None:
            assert not file.exists() or file.read_text() == self.text, f"another {self.path} is there already"
            file.write_text(self.text)
            return
        content = file.read_text()
        for before, after in self.hunks:
            if after in content:
                continue
            assert content.count(before) == 1, (
                f"{self.path} has these lines {content.count(before)} times, and an example of CONTRIBUTING.md changes "
                f"them: change its block, too\n{before}"
            )
            content = content.replace(before, after)
        file.write_text(content)


def examples() -> dict[str, tuple[Change, ...]]:
    """Return heading of an example -> its changes, in the order of the page."""
    _, *sections = re.split(r"^### ", PAGE.read_text().split("\n## Worked examples\n")[1], flags=re.MULTILINE)
    return {section.partition("\n")[0]: tuple(_changes(section)) for section in sections}


def copied(root: Path) -> Path:
    """Copy what the examples change, and what their tests read."""
    root.mkdir()
    for name in _COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.json", "*.svg"))
        else:
            shutil.copy(ROOT / name, root / name)
    for data in (*(ROOT / "ffn_export").rglob("*.json"), *(ROOT / "tests").rglob("*.json")):
        shutil.copy(data, root / data.relative_to(ROOT))
    return root


def _changes(section: str) -> list[Change]:
    found = []
    for indent, language, block in _BLOCK.findall(section):
        text = textwrap.indent(block, "").replace(f"\n{indent}", "\n").removeprefix(indent)
        first, _, rest = text.partition("\n")
        if language == "python" and first.startswith("# "):
            found.append(Change(first.removeprefix("# "), rest))
        elif language == "diff":
            assert first.startswith("--- "), f"a diff names its file: {first}"
            hunks = tuple(_hunk(hunk) for hunk in re.split(r"^@@\n", rest, flags=re.MULTILINE))
            found.append(Change(first.removeprefix("--- "), hunks=hunks))
    return found


def _hunk(text: str) -> tuple[str, str]:
    """Return the lines before and after; an empty line stays."""
    lines = [line or " " for line in text.splitlines()]
    before = [line[1:] for line in lines if line[0] in " -"]
    after = [line[1:] for line in lines if line[0] in " +"]
    return "\n".join(before) + "\n", "\n".join(after) + "\n"
