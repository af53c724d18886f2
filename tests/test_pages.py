"""The pages in docs: links lead somewhere, named paths exist, lines have the usual length."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted(DOCS.rglob("*.md")),
]
FOLDERS = ("ffn_export", "tests", "scripts", "examples", "native")
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
each_page = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])


def is_made(page: Path) -> bool:
    """Whether a command writes the page."""
    return bool(re.search(r"^(Made|Written) by|do not edit|faults:begin", page.read_text(), re.MULTILINE))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@each_page
def test_every_path_that_is_named_exists(page: Path) -> None:
    for path in re.findall(r"`((?:ffn_export|tests|scripts|docs|examples)/[\w/.-]+)`", page.read_text()):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"`(\w+\.py)`", page.read_text()):
        assert any(any((ROOT / folder).rglob(name)) for folder in FOLDERS), name


@pytest.mark.parametrize("page", [page for page in PAGES if not is_made(page)], ids=lambda page: page.stem)
def test_lines_are_as_long_as_those_of_code_at_most(page: Path) -> None:
    long = [line for line in page.read_text().splitlines() if len(line) > 120 and not line.startswith("|")]
    assert long == []


def test_every_decision_has_its_number_and_its_parts_and_is_in_the_index() -> None:
    index = (DOCS / "decisions" / "README.md").read_text()
    for page in DECISIONS:
        text, number = page.read_text(), int(page.name[:4])
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Evidence", "Consequences"]
        title = text.splitlines()[0].removeprefix("# ")
        assert title.startswith(f"{number}. ")
        assert f"- [{title}]({page.name})" in index


def test_every_package_has_a_page() -> None:
    map_of_folders = (DOCS / "architecture.md").read_text()
    described = set(re.findall(r"\(packages/(\w+)\.md\)", map_of_folders))
    assert {page.stem for page in (DOCS / "packages").glob("*.md")} == described
