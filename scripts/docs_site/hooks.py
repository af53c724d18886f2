"""Hooks of mkdocs: what the site holds beside ``docs/``, and what is made when it is built."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[1]))  # mkdocs runs this file by its path
from docs_site import api, commands, compatibility, notebook, repository
from docs_site.diagram import svg

MADE: dict[str, Callable[[], str]] = {
    "api": api.reference,
    "commands": commands.reference,
    "compatibility": compatibility.table,
    "notebook": notebook.page,
}
_ROLE = re.compile(r":\w+:<code>~?(?:\w+\.)*(\w+)</code>")
_MERMAID = re.compile(r"```mermaid\n.*?```", re.DOTALL)
_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List in the navigation the pages of the folders that it names."""
    for section in config.nav or []:
        for entry in (each for entries in section.values() for each in entries if isinstance(each, dict)):
            for title, place in entry.items():
                if isinstance(place, str) and place.endswith("/"):
                    entry[title] = [f"{place}{page.name}" for page in sorted(Path(config.docs_dir, place).glob("*.md"))]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies elsewhere in the repository, and the diagram."""
    for path in repository.SHOWN:
        files.append(File.generated(config, str(repository.place(path)), abs_src_path=str(repository.ROOT / path)))
    files.append(File.generated(config, "architecture.svg", content=svg()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in what is made, and leave out comments with what is in them: marks of tests, and blocks that prepare."""
    text = re.sub(
        r"```mermaid\n.*?```", "![data flow between the folders](architecture.svg)", markdown, flags=re.DOTALL
    )
    return repository.on_site(_COMMENT.sub(_made, text), page.file.src_uri)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show Sphinx's roles, which docstrings use, as the name that they lead to."""
    return _ROLE.sub(r"<code>\1</code>", html)


def _made(comment: re.Match[str]) -> str:
    name = comment[1].strip().removeprefix("made: ")
    return MADE[name]() if name in MADE else ""
