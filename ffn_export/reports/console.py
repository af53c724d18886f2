"""The one place that makes rich consoles.

A console here never reads markup, highlights or emoji codes in what it prints: ``[batch,seq,512]``
is a shape, not a style. Control characters and the commands of CI systems are shown and never obeyed: text that is
printed may come from a file. On a terminal, text that is too long folds; anywhere else nothing is
wrapped, cut or coloured, so that a name can be found by ``grep`` whatever its length.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from ffn_export.core.plain_text import visible, without_commands
from ffn_export.reports.streams import let_go, refusal

# Rich lays a table out for some width; no name reaches this one.
_UNBOUNDED = 1_000_000


class Lines(Text):
    """Text of several lines that is our own, such as the header of a column: its line breaks are kept."""


class _Console(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render; text comes by here however deep it lies in tables and groups."""
        if isinstance(renderable, Text) and not isinstance(renderable, Lines):
            renderable = escaped(renderable)
        return super().render(renderable, options)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        """Return what is written: only here is it known where lines start, since long names fold."""
        return without_commands(super()._render_buffer(buffer))

    def on_broken_pipe(self) -> None:
        """Go on without a reader; rich would end the process with the status of a failed gate."""
        self.quiet = True
        if isinstance(self.file, io.TextIOWrapper):
            let_go(self.file)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print.

        Raises:
            UsageError: If the stream cannot be written to, as on a full disk.
        """
        try:
            super().print(*objects, **options)
        except OSError as error:
            raise refusal(self.file, error) from error


def escaped(text: Text) -> Text:
    """Return text with its control characters visible; text without any is returned as it is."""
    plain = visible(text.plain)
    if plain == text.plain:
        return text
    shown = text.copy()
    shown.plain = plain
    return shown


def stdout_console() -> Console:
    """Return the console for what a command was asked for."""
    return _console(stderr=False, quiet=False)


def stderr_console(quiet: bool = False) -> Console:
    """Return the console for progress, logs and the tables of the main jobs.

    Args:
        quiet: Print nothing at all.
    """
    return _console(stderr=True, quiet=quiet)


def _console(stderr: bool, quiet: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        # A name that the stream's encoding lacks is shown escaped, as Python does on stderr.
        stream.reconfigure(errors="backslashreplace")
    # Asked of the stream itself: FORCE_COLOR makes rich take a pipe for a terminal of 80 columns.
    terminal = stream.isatty()
    return _Console(
        stderr=stderr,
        quiet=quiet,
        markup=False,
        highlight=False,
        emoji=False,
        force_terminal=None if terminal else False,
        soft_wrap=not terminal,
        width=None if terminal else _UNBOUNDED,
    )
