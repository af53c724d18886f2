"""The table of planted faults and what caught each, a section of ``docs/faults.md``.

``python -m tests.parity.faults.page`` writes it.
"""

from __future__ import annotations

from pathlib import Path

from ffn_export.reports.markdown_table import markdown_table
from tests.parity.faults import FAULTS, THEMES
from tests.parity.faults.fault import DETECTORS, Fault

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"
BEGIN, END = "<!-- faults:begin -->", "<!-- faults:end -->"


def section() -> str:
    """Return what stands between the markers."""
    caught = [fault for fault in FAULTS if fault.missed is None]
    detectors = "\n".join(f"- **{name}**: {what}." for name, what in DETECTORS.items())
    tables = "\n".join(f"## {theme}\n\n{_table(faults)}" for theme, faults in THEMES.items())
    return (
        f"{BEGIN}\n{len(FAULTS)} faults are planted one at a time, {len(caught)} of them are caught. Made by "
        "`python -m tests.parity.faults.page` from `tests/parity/faults/`; `tests/parity/test_faults.py` plants each of "
        "them, verifies the file with the default options of `ffn-export verify`, and asserts what this page says.\n\n"
        f"{detectors}\n\nIn brackets: the values or the size of the cases that showed it, if not every case did.\n\n"
        f"{tables}{END}"
    )


def _table(faults: tuple[Fault, ...]) -> str:
    rows = [[f"`{f.name}`", f.what, f.place, ", ".join(f"`{name}`" for name in f.on), _caught(f)] for f in faults]
    return markdown_table(["fault", "what is wrong", "planted in the", "of", "caught by"], rows)


def _caught(fault: Fault) -> str:
    if fault.missed is not None:
        return f"not yet: {fault.missed}"
    return ", ".join(map(str, fault.caught_by))


def current(text: str) -> str:
    """Return a page with the section as it should be."""
    head, rest = text.split(BEGIN)
    return head + section() + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text()))
