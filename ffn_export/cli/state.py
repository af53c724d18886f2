"""State of one run of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@dataclass
class State:
    """Options that commands share, and properties of the process.

    Attributes:
        debug: Show tracebacks.
        quiet: Print only errors and requested output.
        verbose: Show every site, all columns, and reasons that belong to this machine.
        max_cpu: CPU seconds allowed by the user; None means a limit from the size of the files.
        max_memory: Memory allowed by the user, in GB; None means a limit from the size of the files.
        supervised: Whether another process waits for this one and reports how it ended.
        arguments: Arguments of the command line.
    """

    debug: bool = False
    quiet: bool = False
    verbose: bool = False
    max_cpu: float | None = None
    max_memory: float | None = None
    supervised: bool = False
    arguments: tuple[str, ...] = ()

    @cached_property
    def console(self) -> Console:
        """The console for progress, logs and the tables of the main commands."""
        from ffn_export.reports.console import stderr_console

        return stderr_console(quiet=self.quiet)

    @contextmanager
    def progress(self) -> Iterator[Callable[[str], None]]:
        """Yield a function that reports one line: of a spinner on a terminal, plainly elsewhere, nothing when quiet."""
        from rich.text import Text

        if self.console.quiet:
            yield lambda line: None
        elif self.console.is_terminal:
            with self.console.status(Text("starting")) as status:
                yield lambda line: status.update(Text(line))
        else:
            yield lambda line: self.console.print(Text(line), soft_wrap=True)
