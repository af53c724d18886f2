"""Progress: a spinner on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Yield a function that reports one line of progress."""
    if console.quiet:
        yield lambda line: None
    elif console.is_terminal:
        with console.status(Text("starting")) as status:
            yield lambda line: status.update(Text(line))
    else:
        yield lambda line: console.print(Text(line), soft_wrap=True)
