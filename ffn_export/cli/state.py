"""What holds for a whole run of the command line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class State:
    """Flags that every command takes.

    Attributes:
        debug: Show tracebacks.
        quiet: Print nothing but errors and what the command was asked for.
        supervised: Whether another process waits for this one and says what ended it.
        arguments: The command line, as it was given.
    """

    debug: bool = False
    quiet: bool = False
    supervised: bool = False
    arguments: tuple[str, ...] = ()
