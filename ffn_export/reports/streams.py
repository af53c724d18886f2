"""Standard output and error, whose reader may have gone: what is still written goes nowhere, and the verdict counts.

What was asked for on standard output and cannot be written there, as on a full disk, is an error.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
import warnings
from typing import IO, Any

from ffn_export.core.plain_text import safe_lines, visible, without_commands
from ffn_export.errors import UsageError


def let_go(stream: IO[str]) -> None:
    """Send what is still written to a stream whose reader has gone, as of ``| head``, nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def refusal(stream: IO[str], error: OSError) -> UsageError:
    """Return the error of a stream that cannot be written to; what it still holds goes nowhere."""
    let_go(stream)
    return UsageError(f"cannot write standard {'error' if stream is sys.stderr else 'output'}: {error.strerror}")


def say(line: str) -> None:
    """Write a line to standard error; what a file put into it stays on that line."""
    try:
        print(without_commands(visible(line)), file=sys.stderr, flush=True)
    except OSError:  # nobody reads it, or its disk is full: the exit status tells all the same
        let_go(sys.stderr)


def say_traceback(error: BaseException) -> None:
    """Write where an error comes from to standard error."""
    with contextlib.suppress(OSError):
        print(safe_lines("".join(traceback.format_exception(error))), end="", file=sys.stderr, flush=True)


def guard_libraries() -> None:
    """Make what other libraries warn of and log on standard error safe to show; it may name things from a file."""

    def shown(*warned: Any, **options: Any) -> str:
        return safe_lines(plain(*warned, **options))

    class Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return safe_lines(super().format(record))

    plain = warnings.formatwarning
    warnings.formatwarning = shown
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Formatter())


def put(text: str) -> None:
    """Write text to standard output as UTF-8, as a file would hold it, whatever a terminal would take.

    Raises:
        UsageError: If it cannot be written to.
    """
    raw: Any = getattr(sys.stdout, "buffer", None)  # which a stream in memory has not
    try:
        sys.stdout.flush()
        if raw is None:
            sys.stdout.write(text)
        else:
            raw.write(text.encode("utf-8", "backslashreplace"))
            raw.flush()
    except BrokenPipeError:
        let_go(sys.stdout)
    except OSError as error:
        raise refusal(sys.stdout, error) from error
