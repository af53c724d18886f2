"""What holds for a whole run of the command line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class State:
    """Flags that every command takes.

    Attributes:
        debug: Show tracebacks.
        quiet: Print nothing but errors and what the command was asked for.
        arguments: The command line, as it was given.
    """

    debug: bool = False
    quiet: bool = False
    arguments: tuple[str, ...] = ()
