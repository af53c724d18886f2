"""State of one run of the command line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class State:
    """Flags of every command, and properties of the process.

    Attributes:
        debug: Show tracebacks.
        quiet: Print only errors and requested output.
        verbose: Show every site, all columns, and reasons that belong to this machine.
        supervised: Whether another process waits for this one and reports how it ended.
        arguments: Arguments of the command line.
    """

    debug: bool = False
    quiet: bool = False
    verbose: bool = False
    supervised: bool = False
    arguments: tuple[str, ...] = ()
