"""Write to standard output and error.

If the reader has closed a pipe, further output is discarded and the exit status still gives the verdict. If requested
output cannot be written for another reason, such as a full disk, that is an error.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import textwrap
import traceback
import warnings
from typing import IO, Any

from ffn_export.core.plain_text import safe_lines, visible, without_commands
from ffn_export.errors import UsageError


def let_go(stream: IO[str]) -> None:
    """Discard further output of a stream whose reader has closed the pipe, as in ``| head``."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def refusal(stream: IO[str], error: OSError) -> UsageError:
    """Return the error of a stream that cannot be written to, and discard its buffered output."""
    let_go(stream)
    return UsageError(f"cannot write standard {'error' if stream is sys.stderr else 'output'}: {error.strerror}")


def say(line: str) -> None:
    """Write one line to standard error, with line breaks and control characters escaped.

    A terminal would break the words of a long message, so one is wrapped there. A command to copy stays whole.
    """
    text = without_commands(visible(line))
    try:
        if text.startswith("ffn-export: ") and sys.stderr.isatty():
            width = min(shutil.get_terminal_size().columns, 100)
            text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")
        print(text, file=sys.stderr, flush=True)
    except OSError:  # closed pipe or full disk: the exit status still gives the verdict
        let_go(sys.stderr)


def say_traceback(error: BaseException) -> None:
    """Write the traceback of an error to standard error."""
    with contextlib.suppress(OSError):
        print(safe_lines("".join(traceback.format_exception(error))), end="", file=sys.stderr, flush=True)


def guard_libraries() -> None:
    """Escape the warnings and logs of other libraries on standard error, which may contain text from a file."""

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
    """Write text to standard output as UTF-8, as in a file, whatever the terminal's encoding.

    Raises:
        UsageError: If it cannot be written to.
    """
    raw: Any = getattr(sys.stdout, "buffer", None)  # a stream in memory has none
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
