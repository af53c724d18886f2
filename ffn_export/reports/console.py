"""Rich consoles; no other module makes them.

A console here interprets no markup, highlights or emoji codes: ``[batch,seq,512]`` is a shape, not a style.
Printed text may come from a file, so control characters and commands of CI systems are escaped. Lines
have at most 100 columns and wrap between words. A longer word stays whole, so that ``grep`` finds every name.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from ffn_export.core.plain_text import visible, without_commands
from ffn_export.reports.streams import let_go, refusal

MOST_COLUMNS = 100


class Lines(Text):
    """Text that this package has laid out, such as a line of a table: its breaks are kept, and no others are made."""


class _Console(Console):
    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render with text escaped and wrapped; text in groups also passes here, at any depth."""
        if not isinstance(renderable, Text):
            yield from super().render(renderable, options)
        elif isinstance(renderable, Lines):
            whole = (options or self.options).update(no_wrap=True, overflow="ignore")
            yield from super().render(renderable, whole)
        else:
            for line in wrapped(escaped(renderable), (options or self.options).max_width):
                yield from self.render(line, options)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        """Return the written text without CI commands: since long names fold, line starts are known only here."""
        return without_commands(super()._render_buffer(buffer))

    def on_broken_pipe(self) -> None:
        """Continue without a reader; rich would end the process with the exit status of a failed quality gate."""
        self.quiet = True
        if isinstance(self.file, io.TextIOWrapper):
            let_go(self.file)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print.

        Raises:
            UsageError: If the stream cannot be written to, for example because the disk is full.
        """
        try:
            super().print(*objects, **{"crop": False, **options})  # a longer line is one word, which is not cut
        except OSError as error:
            raise refusal(self.file, error) from error


def wrapped(text: Text, width: int) -> list[Lines]:
    """Return text in lines of at most a width, broken between words only; rich would break a longer word."""
    return [_line(part, text.end) for line in text.split("\n", allow_blank=True) for part in _parts(line, width)]


def _line(part: Text, end: str) -> Lines:
    line = Lines(end=end)
    line.append_text(part)
    return line


def _parts(line: Text, width: int) -> Iterable[Text]:
    """Divide one line before each word that would pass the width."""
    breaks, start = [], 0
    for word in re.finditer(r"\S+", line.plain):
        if (
            start < word.start()
            and cell_len(line.plain[start : word.end()]) > width
            and line.plain[start : word.start()].strip()
        ):
            start = word.start()
            breaks.append(start)
    parts = list(line.divide(breaks))
    for part in parts:
        part.rstrip()
    return parts


def escaped(text: Text) -> Text:
    """Return text with its control characters visible; text without any is returned unchanged."""
    plain = visible(text.plain)
    if plain == text.plain:
        return text
    shown = text.copy()
    shown.plain = plain
    return shown


def stdout_console() -> Console:
    """Return the console for the requested output of a command."""
    return _console(stderr=False, quiet=False)


def stderr_console(quiet: bool = False) -> Console:
    """Return the console for progress, logs and the tables of the main commands."""
    return _console(stderr=True, quiet=quiet)


def as_lines(renderable: RenderableType) -> str:
    """Return what a console of the full width shows, without colours."""
    text = io.StringIO()
    _Console(file=text, width=MOST_COLUMNS, force_terminal=False, color_system=None).print(renderable)
    return text.getvalue()


def _console(stderr: bool, quiet: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        # A character that the stream's encoding lacks is escaped, as Python does on stderr.
        stream.reconfigure(errors="backslashreplace")
    # Ask the stream, not rich: with FORCE_COLOR, rich takes a pipe for a terminal of 80 columns.
    terminal = stream.isatty()
    console = _Console(
        stderr=stderr, quiet=quiet, force_terminal=None if terminal else False, width=None if terminal else MOST_COLUMNS
    )
    console.width = min(console.width, MOST_COLUMNS)
    return console
