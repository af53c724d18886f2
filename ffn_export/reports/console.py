"""The one place that makes rich consoles.

A console here never reads markup, highlights or emoji codes in what it prints: ``[batch,seq,512]``
is a shape, not a style. On a terminal, text that is too long folds; anywhere else nothing is
wrapped, cut or coloured, so that a name can be found by ``grep`` whatever its length.
"""

from __future__ import annotations

import io
import sys
from typing import Any

from rich.console import Console

from ffn_export.reports.streams import let_go, refusal

# Rich lays a table out for some width; no name reaches this one.
_UNBOUNDED = 1_000_000


class _Console(Console):
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
