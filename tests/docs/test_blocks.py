"""Every block of commands or Python in README and docs runs, in the order of its page, or says why not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ROOT, RUN, SHOWN, blocks, execute

# CONTRIBUTING's blocks change a copy of the repository: tests/contributing runs them.
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("SECURITY.md", "examples/README.md", "exported/README.md")),
]
WITH_BLOCKS = [page for page in PAGES if any(block.language in RUN and not block.reason for block in blocks(page))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory in which a page runs; modules that it writes are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    for module in (name for name, file in files.items() if file and Path(file).is_relative_to(tmp_path)):
        del sys.modules[module]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_block_says_what_it_is(page: Path) -> None:
    for block in blocks(page):
        assert block.language in (*RUN, *SHOWN), f"{name(page)}:{block.line}: a block of {block.language or 'nothing'}"
        if block.reason:
            print(f"{name(page)}:{block.line} is not run: {' '.join(block.reason.split())}")


@pytest.mark.integration
@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name)
def test_blocks_run_one_after_the_other(page: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language in RUN and block.reason is None:
            execute(block, names)
