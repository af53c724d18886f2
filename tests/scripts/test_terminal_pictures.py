"""What a command prints, as a picture."""

from __future__ import annotations

import re
from pathlib import Path

import terminal_pictures

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_it_shows_the_result_without_progress_and_loads_no_font() -> None:
    drawn = terminal_pictures.draw(
        "ffn-export build x", "[1/2] exporting x\n[2/2] verifying case 1\n\x1b[32m\u2713 passed\x1b[0m\n"
    )
    text = re.sub(r"<[^>]+>|&#160;", " ", drawn)
    assert "passed" in text
    assert "verifying" not in text
    assert "url(" not in drawn.replace("url(#", "")


def test_the_readme_shows_a_picture_that_the_script_makes() -> None:
    shown = re.findall(r"docs/pictures/([\w-]+)\.svg", README)
    assert set(shown) <= set(terminal_pictures.PICTURES)
    assert all((terminal_pictures.FOLDER / f"{name}.svg").is_file() for name in shown)
