"""Pages and files of the repository that are not in ``docs/``: their places on the site, and links to and from them."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
FOLDER = PurePosixPath("repository")
# A link to a file that is not listed here is left as it is, and fails the strict build.
SHOWN = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "SECURITY.md",
    "action.yml",
    "exported/README.md",
    *sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "examples").rglob("*")
        if path.is_file() and "node_modules" not in path.parts
    ),
)
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|<)([^)#\s]+)")


def place(path: str) -> PurePosixPath:
    """Return the place on the site of a file, given its path in the repository."""
    inside = PurePosixPath(path)
    return inside.relative_to("docs") if inside.is_relative_to("docs") else FOLDER / inside


def origin(place_on_site: str) -> PurePosixPath:
    """Return the path in the repository of a page of the site."""
    page = PurePosixPath(place_on_site)
    return page.relative_to(FOLDER) if page.is_relative_to(FOLDER) else "docs" / page


def on_site(markdown: str, page: str) -> str:
    """Return a page with its links, which are right in the repository, as they are on the site."""
    folder = origin(page).parent

    def moved(found: re.Match[str]) -> str:
        target = os.path.normpath(folder / found[1])
        if target not in SHOWN and not target.startswith("docs/"):
            return found[1]
        return os.path.relpath(place(target), PurePosixPath(page).parent)

    return _LINK.sub(moved, markdown)
