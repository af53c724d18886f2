"""Rich consoles; no other module makes them.

A console here interprets no markup, highlights or emoji codes: ``[batch,seq,512]`` is a shape, not a style.
Printed text may come from a file, so control characters and commands of CI systems are escaped. On a
terminal, long text folds. Elsewhere nothing is wrapped, cut or coloured, so that ``grep`` finds every name.
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

# Rich needs a width for the layout of tables; no name is this long.
_UNBOUNDED = 1_000_000


class Lines(Text):
    """Text with line breaks from this package, such as the header of a column: the breaks are kept."""


class _Console(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render with text escaped; text in tables and groups also passes here, at any depth."""
        if isinstance(renderable, Text) and not isinstance(renderable, Lines):
            renderable = escaped(renderable)
        return super().render(renderable, options)

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
            super().print(*objects, **options)
        except OSError as error:
            raise refusal(self.file, error) from error


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
    """Return the console for progress, logs and the tables of the main commands.

    Args:
        quiet: Whether to print nothing.
    """
    return _console(stderr=True, quiet=quiet)


def _console(stderr: bool, quiet: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        # A character that the stream's encoding lacks is escaped, as Python does on stderr.
        stream.reconfigure(errors="backslashreplace")
    # Ask the stream, not rich: with FORCE_COLOR, rich takes a pipe for a terminal of 80 columns.
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
