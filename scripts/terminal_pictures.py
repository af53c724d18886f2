"""Draw what commands print, as the SVGs in docs/pictures: each runs here, in a scratch directory."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from command_line import say

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH = 100
PICTURES = {"build": "ffn-export build bert-ffn"}
# A build ends with its verdict, a mark before each line; its steps and tables are above.
_VERDICT = re.compile("[\u2713\u2717!] ")
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
# rich takes its font from another host: the reader's own is as good, and a page loads nothing from elsewhere.
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def draw(title: str, printed: str) -> str:
    """Return what a command printed, with its colours, as an SVG: the verdict alone, if it has one."""
    console = Console(record=True, width=WIDTH + 2, file=StringIO(), force_terminal=True, color_system="truecolor")
    lines = printed.rstrip().splitlines()
    marked = (number for number, line in enumerate(lines) if _VERDICT.match(_COLOURS.sub("", line)))
    first = next(marked, 0)
    console.print(Text.from_ansi("\n".join([f"$ {title}", *(["\u2026"] if first else []), *lines[first:]])))
    drawn = console.export_svg(title=title, unique_id="picture")
    return _FONTS.sub("", drawn).replace("Fira Code, monospace", "monospace").replace(" \n", "\n")


def printed_by(command: str) -> str:
    """Return what a command prints to a terminal that is not animated."""
    terminal = {"COLUMNS": str(WIDTH), "TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "0", "TERM": "xterm-256color"}
    words = [sys.executable, "-m", "ffn_export", *shlex.split(command)[1:]]
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        done = subprocess.run(
            words,
            cwd=scratch,
            env={**os.environ, **terminal},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )
        return done.stdout.replace(scratch, ".")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the commands and write their pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(PICTURES), default=list(PICTURES), metavar="NAME")
    for name in parser.parse_args(arguments).only:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.svg").write_text(draw(PICTURES[name], printed_by(PICTURES[name])))
        say(f"wrote {FOLDER / name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
